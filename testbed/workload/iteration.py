"""The times of a worker's iteration, as a back end measured them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
    worker. If workers do not proceed ``together``, each has its own time, and the longest counts:
    they begin one after another, and that delay is not part of the job.
    """
    begun = [begun_s(own, warmup) for own in workers]
    ended = [own[-1].end for own in workers]
    if not together:
        return max(end - start for start, end in zip(begun, ended, strict=True))
    return max(ended) - (max(begun) if warmup else min(begun))
