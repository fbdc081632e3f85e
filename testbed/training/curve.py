"""What a job has learnt, and when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

from testbed.workload.quantise import Float32


@dataclass(frozen=True)
class Point:
    """An evaluation of the parameters.

    Attributes:
        iteration: iterations before it. If workers may be in different iterations, it is their
            mean, possibly a fraction.
        at_s: seconds on the back end's clock; None until the schedule is known.
        value: the script's metric.
        loss: mean training loss of the batches since the last evaluation; None before the first.
        staleness: mean number of updates by other workers that a gradient's parameters lacked.
        error: mean relative error of the sums by quantisation.
        weights: digest of the parameters; if two digests are equal, so is every bit of the
            parameters.
    """

    iteration: float
    at_s: float | None
    value: float
    loss: float | None = None
    staleness: float = 0.0
    error: float = 0.0
    weights: str = ""


class Since:
    """The means of what happened since the last evaluation."""

    def __init__(self) -> None:
        self.losses: list[float] = []
        self.staleness: list[float] = []
        self.errors: list[float] = []

    def point(
        self, parameters: Float32, iteration: float, at_s: float | None, value: float
    ) -> Point:
        """The evaluation; counting starts again after it."""
        loss = _mean(self.losses) if self.losses else None
        means = _mean(self.staleness), _mean(self.errors)
        made = Point(iteration, at_s, value, loss, *means, digest(parameters))
        for counted in (self.losses, self.staleness, self.errors):
            counted.clear()
        return made


def digest(parameters: Float32) -> str:
    """A digest of a model's parameters, in the model's order. If two are equal, so is every bit."""
    return sha256(parameters.tobytes()).hexdigest()[:12]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
