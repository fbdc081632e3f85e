"""When one iteration of a worker ran, as a back end saw it."""

from __future__ import annotations

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
