"""When one iteration of a worker ran, as a back end saw it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from testbed.workload.replay import Span, lasting_s


@dataclass
class IterationTimes:
    """When one iteration began, its compute ended and its last sum arrived (monotonic clock).

    ``stalls``: when its forward pass waited for sums of the iteration before.
    """

    start: float
    compute_end: float
    end: float
    stalls: tuple[Span, ...] = ()

    @property
    def stalled(self) -> float:
        """Seconds in which it waited, in all."""
        return lasting_s(self.stalls)


def begun_s(own: Sequence[IterationTimes], warmup: int = 0) -> float:
    """When a worker's measured iterations began: as its last sum of the ``warmup`` arrived.

    The next iteration may have begun to compute before that.
    """
    return own[warmup - 1].end if warmup else own[0].start


def completion_s(
    workers: Sequence[Sequence[IterationTimes]], warmup: int = 0, together: bool = True
) -> float:
    """The job completion time (JCT) of the iterations after the first ``warmup``.

    From when the last worker has ended its warm-up to when the last worker has ended: the same
    event at either end. Without a warm-up it begins with the first worker. Workers that do not go
    on ``together`` each have a time of their own, and the longest counts: they begin one after
    another, which is no part of the job.
    """
    begun = [begun_s(own, warmup) for own in workers]
    ended = [own[-1].end for own in workers]
    if not together:
        return max(end - start for start, end in zip(begun, ended, strict=True))
    return max(ended) - (max(begun) if warmup else min(begun))
