"""What every back end returns for a deployment.

Each back end has a function ``run(deployment, log_dir, recording)`` that returns `Measurements`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from testbed.backends.digests import Digests
from testbed.deployment.deploy import DeployedJob
from testbed.hosts.layout import Layout
from testbed.hosts.task import RankOutcome
from testbed.protocols.events import Event
from testbed.workload.iteration import IterationTimes, UpdateTimes


class Stalled(Exception):
    """Ranks wait for one another for ever, in virtual time."""


class BrokenConnection(Exception):
    """TCP gave up a connection, because none of its retransmissions was acknowledged."""


class SumMismatch(Exception):
    """A worker received a sum that is not the true one."""


@dataclass(frozen=True)
class JobMeasurements:
    """What was measured of one job; None for what a back end does not measure.

    Attributes:
        iterations: those of each worker, warm-up included, on the back end's clock.
        verified: whether every worker compared every value that it received with the true sum.
        retransmitted, collisions: packets, in all iterations, warm-up included.
        overflows: fragments whose sum left the range of int32.
        quantisation_error: see `testbed.results.Row`.
        events: what P4 switches counted.
        switch_target: what ran the P4 program; empty if nothing did.
        late_s: the longest delay with which a rank was woken.
        notes: see `testbed.results.Row`.
        updates: the updates of parameters at servers, in order of time, if the job learns without
            an all-reduce.
        weights: the different digests of the parameters that workers have learnt.
    """

    iterations: Sequence[Sequence[IterationTimes]]
    verified: bool | None = None
    retransmitted: int | None = None
    collisions: int | None = None
    overflows: int | None = None
    quantisation_error: float | None = None
    events: Counter[Event] | None = None
    switch_target: str = ""
    late_s: float = 0.0
    notes: str = ""
    updates: Sequence[UpdateTimes] = ()
    weights: frozenset[str] = frozenset()


def of_ranks(
    job: DeployedJob,
    outcomes: Sequence[RankOutcome],
    events: Counter[Event],
    target: str,
    carried: int | None = None,
) -> JobMeasurements:
    """The measurements of a job, from its ranks' ``outcomes``. Raises SumMismatch if a sum was
    wrong.

    ``target``: what runs the P4 program, if the job needs it. ``carried``: how many of a packet's
    values were really carried; None for all.
    """
    if wrong := {each.rank: each.wrong for each in outcomes if each.wrong}:
        ranks = ", ".join(f"rank {rank}: {count}" for rank, count in wrong.items())
        raise SumMismatch(f"job {job.number} ({job.system.name}): values that differ: {ranks}")
    workers = outcomes[: job.plan.workers]
    layout = Layout(job.plan, job.units, job.fabric.values, carried)
    iterations = job.job.iterations + job.job.warmup
    return JobMeasurements(
        iterations=[each.iterations for each in workers],
        verified=all(each.checked == iterations * layout.compared(each.rank) for each in workers),
        retransmitted=sum(each.retransmitted for each in outcomes),
        collisions=max(each.collisions for each in outcomes),
        overflows=max(each.overflows for each in outcomes),
        quantisation_error=outcomes[0].quantisation_error,
        events=events,
        switch_target=target if job.plan.trees else "",
        late_s=max(each.late_s for each in outcomes),
        updates=sorted(
            (update for each in outcomes for update in each.updates), key=lambda each: each.at_s
        ),
        weights=frozenset(each.weights for each in workers),
    )


def span_s(outcomes: Iterable[RankOutcome]) -> float:
    """Seconds from the first start of an iteration to the last end."""
    every = [each for outcome in outcomes for each in outcome.iterations]
    return max(each.end for each in every) - min(each.start for each in every)


@dataclass(frozen=True)
class PortCounts:
    """The counters of a port: frames that it sent, that reached the other end, and that its queue
    dropped; and the most bytes that waited in its queue."""

    sent: int
    arrived: int
    dropped: int
    most_waiting: int


@dataclass(frozen=True)
class Measurements:
    """What a run of a deployment measured. Bytes and times are scaled; times are also dilated.

    Attributes:
        jobs: the measurements of each job, in the deployment's order.
        carried: bytes on each directed link (a, b), headers included; unused links are left out.
        seconds: from the first start to the last end.
        dilation: the factor by which times on the back end's clock are longer than scaled times.
        digests: of the packets on links, in virtual time.
        ports: the counters of each directed link's port, where the back end has them.
        events: the packets of all jobs that each P4 switch has seen.
        waited: the most bytes that waited inside a node: for a host's processor, or for a switch
            that sums no faster than its capacity.
    """

    jobs: Sequence[JobMeasurements]
    carried: Mapping[tuple[str, str], float] = field(default_factory=dict)
    seconds: float = 0.0
    dilation: float = 1.0
    digests: Digests | None = None
    ports: Mapping[tuple[str, str], PortCounts] = field(default_factory=dict)
    events: Mapping[str, Counter[Event]] = field(default_factory=dict)
    waited: Mapping[str, int] = field(default_factory=dict)
