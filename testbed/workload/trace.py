"""A workload's trace: the sizes of a model's gradients, and when each of them is ready.

A trace is a list of layer sizes and timings, without gradient values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property


class TraceError(ValueError):
    """A trace that cannot be used. ``problems`` lists every problem, each with file:line."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(problems))


@dataclass(frozen=True)
class Tensor:
    """One parameter tensor. Times are in seconds; spreads are interquartile ranges of the
    recording."""

    name: str
    elements: int
    forward_s: float
    backward_s: float
    forward_spread_s: float = 0.0
    backward_spread_s: float = 0.0


@dataclass(frozen=True)
class Trace:
    """One iteration of a training job on one worker.

    ``tensors`` are in forward order. ``ready`` has their indices in the order in which their
    gradients become ready; by default, that is the reverse. ``batch`` is the number of samples per
    iteration.
    """

    name: str
    batch: int
    tensors: tuple[Tensor, ...]
    ready: tuple[int, ...] = ()
    dtype_bytes: int = 4
    provenance: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.ready:
            object.__setattr__(self, "ready", tuple(reversed(range(len(self.tensors)))))
        if sorted(self.ready) != list(range(len(self.tensors))):
            raise ValueError(f"ready must name each of the {len(self.tensors)} tensors once")

    @cached_property
    def elements(self) -> int:
        """The number of gradient values in the model."""
        return sum(tensor.elements for tensor in self.tensors)

    @property
    def bytes(self) -> int:
        """The bytes of the model's gradient."""
        return self.elements * self.dtype_bytes

    @cached_property
    def forward_s(self) -> float:
        """Seconds of the forward pass."""
        return math.fsum(tensor.forward_s for tensor in self.tensors)

    @cached_property
    def backward_s(self) -> float:
        """Seconds of the backward pass."""
        return math.fsum(tensor.backward_s for tensor in self.tensors)

    @property
    def compute_s(self) -> float:
        """Seconds of an iteration without communication: forward, then backward."""
        return self.forward_s + self.backward_s

    def scaled(self, scale: float | Fraction) -> Trace:
        """The same model with elements (rounded up) and times multiplied by ``scale`` > 0."""
        if not scale > 0:
            raise ValueError(f"scale must be positive, found {scale}")
        exact, times = Fraction(scale), float(scale)
        small = tuple(
            Tensor(
                t.name,
                max(1, math.ceil(t.elements * exact)),
                t.forward_s * times,
                t.backward_s * times,
                t.forward_spread_s * times,
                t.backward_spread_s * times,
            )
            for t in self.tensors
        )
        return replace(self, tensors=small)
