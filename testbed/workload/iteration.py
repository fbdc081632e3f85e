"""The times of a worker's iteration, as a back end measured them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

from testbed.workload.replay import Span, lasting_s


@dataclass
class IterationTimes:
    """When one iteration began, when its computation ended, and when its last sum arrived (seconds
    on the back end's clock).

    ``stalls``: the times in which its forward pass waited for sums of the previous iteration.
    """

    start: float
    compute_end: float
    end: float
    stalls: tuple[Span, ...] = ()

    @property
    def stalled(self) -> float:
        """The total time for which it waited, in seconds."""
        return lasting_s(self.stalls)


@dataclass(frozen=True)
class UnitTimes:
    """When a worker began to synchronise a unit, and when it had the sum.

    ``iteration`` counts the warm-up, too; ``unit`` is the position in sending order.
    """

    iteration: int
    unit: int
    begun_s: float
    ended_s: float


@dataclass(frozen=True)
class UpdateTimes:
    """When a server added a worker's update to a chunk of a unit, and which workers it answered
    with the sum before it added another update.

    ``unit`` is the position in sending order within an iteration.
    """

    at_s: float
    unit: int
    chunk: int
    worker: int
    answered: tuple[int, ...]


def begun_s(own: Sequence[IterationTimes], warmup: int = 0) -> float:
    """When a worker's measured iterations began: at the arrival of its last sum of the ``warmup``.

    Computation of the next iteration may have begun before that.
    """
    return own[warmup - 1].end if warmup else own[0].start


def completion_s(
    workers: Sequence[Sequence[IterationTimes]], warmup: int = 0, together: bool = True
) -> float:
    """The job completion time (JCT) of the iterations after the first ``warmup``.

    It lasts from the moment when the last worker has ended its warm-up to the moment when the last
    worker has ended: the same event at both ends. Without a warm-up, it begins with the first
    worker. If workers do not proceed ``together``, they begin one after another, and that delay is
    not part of the job. Then it lasts as long as the slowest worker takes for its iterations, or
    all together for all of them (`paces`), whichever is longer.
    """
    begun = [begun_s(own, warmup) for own in workers]
    ended = [own[-1].end for own in workers]
    if not together:
        longest = max(end - start for start, end in zip(begun, ended, strict=True))
        return max(longest, (len(workers[0]) - warmup) / fmean(paces(workers, warmup)))
    return max(ended) - (max(begun) if warmup else min(begun))


def paces(workers: Sequence[Sequence[IterationTimes]], warmup: int = 0) -> list[float]:
    """Iterations per second of each worker while all of them load the network: from the end of the
    first worker's warm-up to the end of the first worker. What is left of others' warm-ups counts,
    too. If not all have begun by then, it is from the first's begin to the last's end.
    """
    begun = [begun_s(own, warmup) for own in workers]
    ended = [own[-1].end for own in workers]
    since, until = max(min(begun), *(own[0].start for own in workers)), min(ended)
    if until <= since:
        since, until = min(begun), max(ended)
    found = []
    for own in workers:
        edges = [own[0].start, *(each.end for each in own)]
        done = sum(
            max(0.0, min(end, until) - max(begin, since)) / (end - begin)
            for begin, end in pairwise(edges)
            if end > begin
        )
        found.append(done / (until - since))
    return found
