"""The simulator's input, its assumptions and its output. Units: seconds and bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from testbed.deployment.deploy import DeployedJob
from testbed.plan.program import Plan
from testbed.plan.units import Unit
from testbed.workload.iteration import IterationTimes, UpdateTimes, completion_s
from testbed.workload.replay import Need


@dataclass(frozen=True)
class Job:
    """One job as the simulator runs it.

    Attributes:
        plan: what its ranks do for each unit.
        units: the pieces of one iteration, in the order in which they are sent.
        compute_s: the time of forward and backward of one iteration.
        paces: the factor of ``compute_s`` for each worker and each iteration.
        start_s: when the first worker begins.
        gap_s: how much later each worker begins than the previous one.
        step_s: the time that a rank needs before a transfer that depends on another one.
        window: fragments that a sender on a tree may have in flight; None means any number.
        forward: the parts of the forward pass, which wait only for the sums of their own bucket;
            empty if an iteration waits for all sums of the previous one.
        parts: the lengths of the parts of the computation for which parameters are gathered (s);
            empty if they are not sharded.
        notes_updates: whether updates of shared parameters are recorded.
    """

    plan: Plan
    units: tuple[Unit, ...]
    compute_s: float
    paces: tuple[tuple[float, ...], ...]
    start_s: float = 0.0
    gap_s: float = 0.0
    step_s: float = 0.0
    window: int | None = None
    forward: tuple[Need, ...] = ()
    parts: tuple[float, ...] = ()
    notes_updates: bool = False

    def __post_init__(self) -> None:
        if len(self.paces) != self.plan.workers:
            raise ValueError(f"paces of {len(self.paces)} workers for {self.plan.workers}")


@dataclass(frozen=True)
class Assumptions:
    """What a fabric's description does not say, and how exact the simulation is.

    Attributes:
        ecmp: ``hash`` draws each flow's path anew at every switch, as hashing routers do;
            ``even`` splits every flow over all equally short paths, as the closed form does.
        seed: of the hash.
        hop_s: latency of a link: propagation, and the time in a switch.
        scale: the factor by which bytes and times were multiplied. Latencies, including that of a
            frame, are given for the real cluster and are scaled here, because frames do not shrink
            like messages.
        closed_from: from this many workers on, a plan whose positions keep step is simulated in
            closed stretches instead of operation by operation.
        most_transfers: other plans with up to this many transfers per unit are simulated operation
            by operation; larger ones are approximated by closed stretches.
    """

    ecmp: Literal["hash", "even"] = "hash"
    seed: int = 1
    hop_s: float = 0.0
    scale: float = 1.0
    closed_from: int = 33
    most_transfers: int = 100_000


@dataclass(frozen=True)
class Timeline:
    """The outcome of a simulation.

    Attributes:
        iterations: those of each job and worker, on a clock that starts with the simulation.
        carried: bytes on each directed link (a, b), headers included.
        end_s: when the last worker ended.
        updates: those of each job's shared parameters, if it asked for them.
    """

    iterations: tuple[tuple[tuple[IterationTimes, ...], ...], ...]
    carried: Mapping[tuple[str, str], float]
    end_s: float
    updates: tuple[tuple[UpdateTimes, ...], ...] = ()

    def jct_s(self, job: int, warmup: int = 0) -> float:
        """The completion time of all workers; see ``completion_s``."""
        return completion_s(self.iterations[job], warmup)

    def iteration_s(self, job: int) -> float:
        """Mean length of all workers' iterations."""
        lengths = [each.end - each.start for own in self.iterations[job] for each in own]
        return sum(lengths) / len(lengths)


def of(job: DeployedJob) -> Job:
    """The job as the simulator runs it, scaled."""
    return Job(
        plan=job.plan,
        units=job.units,
        compute_s=job.compute_s,
        paces=job.paces,
        start_s=job.start_s,
        # Only workers without a barrier begin late; for others the slow closed form is not needed.
        gap_s=job.gap_s if job.plan.consistency is not None else 0.0,
        step_s=job.step_s,
        window=job.window.fragments or None,
        forward=job.forward,
        parts=job.parts,
        notes_updates=job.job.training is not None,
    )
