"""Units: the pieces of a gradient that run a plan's program, each on its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from testbed import wire
from testbed.plan.program import Plan
from testbed.workload.buckets import Bucket


@dataclass(frozen=True)
class Unit:
    """A piece of the gradient that runs the plan's program on its own.

    ``offset`` and ``elements`` place it in the flat gradient; ``ready_s`` is the time after the
    start of an iteration when its gradients exist (s). A ``deferred`` unit holds the gradients of
    the iteration before.
    """

    bucket: int
    offset: int
    elements: int
    ready_s: float
    deferred: bool = False


def grain(plan: Plan, values: int) -> int:
    """The number of values of which chunks are multiples: a packet's if switches sum, else 1."""
    return values if plan.trees else 1


def cut(
    buckets: Sequence[Bucket], plan: Plan, scale: Fraction | float, values: int = wire.VALUES
) -> tuple[Unit, ...]:
    """The units of one iteration: buckets, or pieces of at most the plan's partition, scaled.

    A unit is padded so that it divides into the plan's chunks, with whole packets of ``values``.
    """
    whole = grain(plan, values) * (plan.chunks if plan.shares is None else 1)
    most = largest(plan, scale)
    units: list[Unit] = []
    offset = 0
    for bucket in buckets:
        left = bucket.bytes // 4
        while left > 0:
            taken = left if most is None else min(left, most)
            elements = -(-taken // whole) * whole
            units.append(Unit(bucket.index, offset, elements, bucket.ready_s, bucket.deferred))
            offset += elements
            left -= taken
    return tuple(units)


def largest(plan: Plan, scale: Fraction | float) -> int | None:
    """The most values of a unit, before it is padded; None for any number."""
    partition = plan.pipelining.partition
    return None if partition is None else max(1, int(partition * scale / 4))
