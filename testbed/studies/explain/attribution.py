"""Divides a job's completion time among its causes, by runs without them.

A run in packets is deterministic, so what a cause costs is a difference of two runs. Causes
interact: without queues that overflow, an unlucky hash costs less. So causes are removed one after
another in the order of `causes.CAUSES`, and again in the reverse order. Each cause gets the mean of
what its removal gained. In either order, the gains add up to the JCT minus that of the run without
any cause, and so do their means. This is the Shapley value over two orders instead of all. ``low``
and ``high`` are the lowest and the highest of three gains: in the two orders, and with the cause
removed alone. If they differ, causes interact.

Without any cause, what is left is computation, the time in which the busiest link sends and nothing
computes, and the rest: the dependency chain, in which even the busiest link waits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from testbed.backends.measurements import BrokenConnection, Measurements, Stalled, SumMismatch
from testbed.backends.packet import backend
from testbed.deployment.deploy import Deployment
from testbed.deployment.errors import DeploymentError
from testbed.plan.program import Plan
from testbed.studies.explain.causes import CAUSES, Cause, removed
from testbed.studies.explain.record import Interval, Record, observe, times
from testbed.topology.paths import Link

COMPUTE, BUSIEST, CHAIN = "compute", "busiest link", "dependency chain"


@dataclass(frozen=True)
class Part:
    """A part of the JCT, in seconds of the real cluster.

    Attributes:
        instead: what the run without this cause had instead; empty for parts that cannot be
            removed.
        alone_s: what was gained when this cause alone was removed.
        low_s, high_s: the least and the most that its removal gained.
    """

    name: str
    seconds: float
    instead: str = ""
    alone_s: float = 0.0
    low_s: float = 0.0
    high_s: float = 0.0


@dataclass(frozen=True)
class Explanation:
    """Where the time of a job went.

    Attributes:
        parts: they add up to ``jct_s``.
        record, ideal: the records of the run, and of the run without any cause.
        unknown: causes that could not be removed, each with the reason.
        runs: how many runs the explanation took.
    """

    deployment: Deployment
    number: int
    jct_s: float
    parts: Sequence[Part]
    record: Record
    ideal: Record
    unknown: Sequence[str]
    runs: int


class _NotRemoved(Exception):
    """A run without ``cause``, and perhaps without others that were removed before, failed."""

    def __init__(self, cause: Cause, message: str) -> None:
        super().__init__(message)
        self.cause = cause


def explain(deployment: Deployment, number: int = 0) -> Explanation:
    """Explain job ``number`` of a deployment. Raises what the run itself raises."""
    with TemporaryDirectory() as folder:
        measured = backend.run(deployment, Path(folder))
    jct = times(deployment, measured, number).jct_s
    causes = [cause for cause in CAUSES if cause.present(deployment, number, measured)]
    runs = 1

    @cache
    def without(gone: frozenset[Cause]) -> float:
        nonlocal runs
        if not gone:
            return jct
        runs += 1
        return _jct(removed(deployment, number, gone), number)

    unknown = []
    while True:
        try:
            alone = {cause: _gains([cause], without)[cause] for cause in causes}
            forwards, backwards = _gains(causes, without), _gains(causes[::-1], without)
            break
        except _NotRemoved as failed:  # both orders need the same causes
            causes.remove(failed.cause)
            unknown.append(str(failed))
    parts = []
    for cause in causes:
        each = (forwards[cause], backwards[cause])
        every = (*each, alone[cause])
        parts.append(
            Part(cause.name, sum(each) / 2, cause.instead, alone[cause], min(every), max(every))
        )
    ideal = observe(removed(deployment, number, causes), (number,))
    rate = deployment.fabric.link
    watched = max(
        measured.carried, key=lambda link: measured.carried[link] / rate(*link).rate, default=None
    )
    record = observe(deployment, (number,), watched)
    return Explanation(
        deployment,
        number,
        jct,
        [*rest(ideal, number, deployment.jobs[number].plan), *parts],
        record,
        ideal,
        unknown,
        runs + 2,
    )


def _jct(deployment: Deployment, number: int) -> float:
    with TemporaryDirectory() as folder:
        measured: Measurements = backend.run(deployment, Path(folder))
    return times(deployment, measured, number).jct_s


def _gains(
    order: Sequence[Cause], without: Callable[[frozenset[Cause]], float]
) -> dict[Cause, float]:
    """What each removal gains, if causes are removed one after another in this ``order``. Raises
    _NotRemoved if a run fails."""
    gains: dict[Cause, float] = {}
    for cause in order:
        before = frozenset(gains)
        try:
            gains[cause] = without(before) - without(before | {cause})
        except (DeploymentError, Stalled, BrokenConnection, SumMismatch) as error:
            gone = ", ".join(["it", *(each.name for each in gains)])
            said = f"{cause.name}: the run without {gone} failed: {error}"
            raise _NotRemoved(cause, said) from error
    return gains


def rest(ideal: Record, number: int, plan: Plan) -> list[Part]:
    """The parts of a run from which nothing can be removed; they add up to its JCT.

    The JCT of a job without a barrier is not the time of one of its workers. There, the busiest
    link's part is its share of the time in which the worker that ends last does not compute.
    """
    job = ideal.jobs[number]
    compute = sum(job.computed[job.last])
    left = job.jct_s - compute
    link = busiest(ideal)
    sending = 0.0
    if link is not None:
        sending = sum(overlap(ideal.busy.get(link, ()), each) for each in job.exposed)
        waited = sum(end - start for start, end in job.exposed)
        if plan.consistency is not None and not plan.consistency.is_barrier and waited:
            sending *= left / waited
        sending = min(left, sending)
    return [
        Part(COMPUTE, compute),
        Part(BUSIEST, sending),
        Part(CHAIN, left - sending),
    ]


def busiest(record: Record) -> Link | None:
    """The directed link that sent for the longest time; None if none did."""
    seconds = {link: record.carried[link] / record.rates[link] for link in record.rates}
    return max(seconds, key=lambda link: seconds[link], default=None)


def overlap(spells: Sequence[tuple[float, float, float]], interval: Interval) -> float:
    """For how many seconds of ``interval`` a link was busy."""
    start, end = interval
    return sum(
        max(0.0, min(end, until) - max(start, since)) * share for since, until, share in spells
    )
