"""A rank's task and its outcome: plain data that crosses processes."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from testbed import wire
from testbed.hosts.layout import Layout
from testbed.plan.program import Plan
from testbed.plan.units import Unit
from testbed.protocols.roles import Neighbours, Role
from testbed.workload.gradients import Gradients
from testbed.workload.iteration import IterationTimes, UnitTimes, UpdateTimes
from testbed.workload.replay import Need


@dataclass(frozen=True)
class Task:
    """One rank's part of a job.

    Attributes:
        plan, rank: the plan, and the rank that runs its part of it.
        job: number of the job in this run; separates ports and switch memory.
        addresses: IP address of every rank.
        units: the pieces of one iteration in sending order: a piece that is ready waits for those
            before it.
        compute_s: forward and backward of one iteration, seconds on the emulator's clock.
        parts: the parts of the computation, if parameters are gathered for them; empty if it has
            only one.
        gradients: every worker's contribution, and thus the true sum. They are drawn before the
            fork, so that all ranks share one copy. None: values are neither filled in nor checked.
        paces: for each iteration, warm-up included, this rank's compute time as a multiple of
            ``compute_s``.
        trees: this rank's part in each of the plan's trees, None where it has none.
        start_s: start of the job, seconds after the start of the run.
        step_s: how long a host takes for each transfer before it starts.
        tick_s: how long packets may gather after a wake-up before the rank is woken again, like
            a network card's interrupt moderation.
        engine_pace: seconds that pass on the engine's clock, by which it retransmits, in a second.
        values: int32 values in an INA packet.
        carried: how many of them the packet really carries, None for all; see `layout`.
        burst: packets that may leave back to back, whatever the link's rate.
        forward: the parts of the forward pass, each of which waits only for the sums of its bucket;
            empty if an iteration waits for all sums of the previous one.
        times_units: whether a worker records the times of each unit.
        notes_updates: whether a server of shared parameters records its updates.
        shared_layout: the layout, if the ranks share one: with many chunks it is large.
    """

    plan: Plan
    rank: int
    job: int
    addresses: tuple[str, ...]
    units: tuple[Unit, ...]
    compute_s: float
    gradients: Gradients | None
    paces: tuple[float, ...] = (1.0,)
    trees: tuple[Role | Neighbours | None, ...] = ()
    start_s: float = 0.0
    step_s: float = 0.0
    tick_s: float = 0.0
    engine_pace: float = 1.0
    values: int = wire.VALUES
    carried: int | None = None
    burst: int = 1
    forward: tuple[Need, ...] = ()
    parts: tuple[float, ...] = ()
    times_units: bool = False
    notes_updates: bool = False
    shared_layout: Layout | None = None

    @property
    def iterations(self) -> int:
        return len(self.paces)

    @cached_property
    def layout(self) -> Layout:
        return self.shared_layout or Layout(self.plan, self.units, self.values, self.carried)

    @property
    def is_worker(self) -> bool:
        return self.rank < self.plan.workers


@dataclass
class RankOutcome:
    """A rank's results. ``wrong`` counts received values that differ from the true sum; ``checked``
    counts all values compared; ``late_s`` is the longest delay of a wake-up by this process's own
    timer. ``overflows`` counts fragments whose sum left the range of int32, ``floats`` those that
    were summed as floats instead. ``quantisation_error`` is that of the last iteration's sums of
    real gradients, at rank 0. ``units`` and ``updates`` are empty unless the task asks.
    ``weights``: see `Gradients`."""

    rank: int
    iterations: list[IterationTimes] = field(default_factory=list)
    units: list[UnitTimes] = field(default_factory=list)
    updates: list[UpdateTimes] = field(default_factory=list)
    checked: int = 0
    wrong: int = 0
    retransmitted: int = 0
    collisions: int = 0
    overflows: int = 0
    floats: int = 0
    late_s: float = 0.0
    quantisation_error: float | None = None
    weights: str = ""
