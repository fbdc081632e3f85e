"""What a rank is told to do, and what it tells afterwards: plain data that crosses processes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from testbed.dataplane import wire
from testbed.plan.program import Plan
from testbed.workload.buckets import Bucket
from testbed.workload.gradients import Gradients


@dataclass(frozen=True)
class Unit:
    """A piece of the gradient that runs the plan's program on its own.

    ``offset`` and ``elements`` place it in the flat gradient; ``ready_s`` is when, after the
    start of an iteration, its gradients exist (seconds on the emulator's clock).
    """

    bucket: int
    offset: int
    elements: int
    ready_s: float


@dataclass(frozen=True)
class Aggregation:
    """How a rank takes part in a tree: its parent's address, or the root's children.

    ``tick_s`` is how long a rank that was woken by packets lets more of them gather before it
    is woken again: interrupt moderation, as network cards do it. ``burst`` packets may leave
    back to back, whatever the link's rate.
    """

    job: int
    slots: npt.NDArray[np.uint32]
    parent: str
    children: tuple[str, ...]
    tick_s: float = 0.0
    burst: int = 1


@dataclass(frozen=True)
class Task:
    """One rank's part of a job.

    Attributes:
        plan, rank: the program and whose part of it.
        job: number of the job in this run; separates ports and switch memory.
        addresses: IP address of every rank.
        units: the pieces of one iteration, in the order in which they become ready.
        compute_s: forward and backward of one iteration, seconds on the emulator's clock.
        iterations: how many to run, warm-up included.
        gradients: what every worker contributes, and so the true sum; drawn before the fork,
            so that all ranks share one copy.
        aggregation: for plans with a tree.
    """

    plan: Plan
    rank: int
    job: int
    addresses: tuple[str, ...]
    units: tuple[Unit, ...]
    compute_s: float
    iterations: int
    gradients: Gradients
    aggregation: Aggregation | None = None

    @property
    def elements(self) -> int:
        return sum(unit.elements for unit in self.units)

    @property
    def is_worker(self) -> bool:
        return self.rank < self.plan.workers


@dataclass
class Iteration:
    """When one iteration began, its compute ended and its last sum arrived (monotonic clock)."""

    start: float
    compute_end: float
    end: float


@dataclass
class Outcome:
    """What a rank saw. ``wrong`` counts received values that differ from the true sum;
    ``checked`` counts all values compared; ``late_s`` is the worst delay with which this process
    was woken for its own timer."""

    rank: int
    iterations: list[Iteration] = field(default_factory=list)
    checked: int = 0
    wrong: int = 0
    retransmitted: int = 0
    collisions: int = 0
    late_s: float = 0.0


def cut(buckets: Sequence[Bucket], plan: Plan, scale: Fraction | float) -> tuple[Unit, ...]:
    """The units of one iteration: buckets, or pieces of at most ``plan.partition`` bytes, scaled.

    A unit is padded so that it divides into the plan's chunks, and into whole packets where
    switches sum it.
    """
    grain = plan.chunks * (wire.VALUES if plan.trees else 1)
    most = None if plan.partition is None else max(1, int(plan.partition * scale / 4))
    units: list[Unit] = []
    offset = 0
    for bucket in buckets:
        left = bucket.bytes // 4
        while left > 0:
            taken = left if most is None else min(left, most)
            elements = -(-taken // grain) * grain
            units.append(Unit(bucket.index, offset, elements, bucket.ready_s))
            offset += elements
            left -= taken
    return tuple(units)
