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

    ``elements`` is its number of values; ``ready_s`` is the time, in seconds after the start of an
    iteration, when its gradients exist. A ``deferred`` unit holds gradients of the previous
    iteration. ``priority`` is the priority of its packets in switches' memory, for protocols that
    have priorities.

    If the computation has parts (`testbed.workload.replay.Computation`), a unit is not ready before
    the part ``after`` has begun, and the part ``needed`` does not begin before the unit has ended.
    A unit that is ``needed`` gathers parameters; all others sum gradients.
    """

    bucket: int
    elements: int
    ready_s: float
    deferred: bool = False
    priority: int = 0
    after: int | None = None
    needed: int | None = None

    @property
    def gathers(self) -> bool:
        """Whether it gathers parameters (for a part of the computation)."""
        return self.needed is not None


def grain(plan: Plan, values: int) -> int:
    """Chunks begin at multiples of this number of values: a packet's if switches sum, else 1."""
    return values if plan.trees else 1


def in_packets(elements: int, values: int) -> int:
    """The number of values in the packets that hold ``elements``. A packet on a tree always has
    ``values``; those that the last one does not need are 0."""
    return -(-elements // values) * values


def cut(
    buckets: Sequence[Bucket], plan: Plan, scale: Fraction | float, values: int = wire.VALUES
) -> tuple[Unit, ...]:
    """The units of one iteration: buckets, or pieces of at most the plan's partition, scaled.

    A unit is as large as its gradients: nothing is added to fill packets or chunks. Pieces for
    trees are whole packets of ``values``, except for the last piece of a bucket.
    """
    partition, least = plan.pipelining.partition, grain(plan, values)
    most = None if partition is None else max(1, int(partition * scale / 4) // least) * least
    units: list[Unit] = []
    for bucket in buckets:
        left = bucket.bytes // 4
        while left > 0:
            taken = left if most is None else min(left, most)
            when = bucket.ready_s, bucket.deferred
            units.append(Unit(bucket.index, taken, *when, after=bucket.after, needed=bucket.needed))
            left -= taken
    return tuple(units)
