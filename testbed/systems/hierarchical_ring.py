"""Hierarchical ring: reduce-scatter in the racks, rings across them, all-gather in the racks."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

from pydantic import Field

from testbed.experiment.options import Options
from testbed.plan.program import Pipelining, Plan
from testbed.plan.stages import Ring, Stage, Stages, Turn
from testbed.systems.racks import by_rack
from testbed.systems.ring import hops
from testbed.systems.system import Assignment, System
from testbed.topology.fabric import Fabric


def plan(job: Assignment, fabric: Fabric) -> Plan:
    """Pieces of the bucket with one owner in each rack; each piece has one chunk per rack."""
    ranks = {host: rank for rank, host in enumerate(job.workers)}
    racks = [[ranks[host] for host in rack] for rack in by_rack(job.workers, fabric).values()]
    # A rack of n workers owns n equal segments. Pieces end at every rack's cuts, so none is
    # divided between two owners, however uneven the racks are.
    cuts = sorted({Fraction(at, len(rack)) for rack in racks for at in range(len(rack) + 1)})
    pieces = [start for start, _ in pairwise(cuts)]
    across = len(racks)
    owners = [[rack[int(start * len(rack)) - 1] for rack in racks] for start in pieces]
    shares = [(end - start) / across for start, end in pairwise(cuts)]

    segments = {
        length: tuple(tuple(_chunks(segment, length, pieces, across)) for segment in range(length))
        for length in {len(rack) for rack in racks}
    }

    def within(turn: Turn) -> Stage:
        return tuple(Ring(hops(rack), segments[len(rack)], turn) for rack in racks)

    between = tuple(
        Ring(
            hops(own),
            tuple((chunk,) for chunk in range(piece * across, (piece + 1) * across)),
            Turn.BOTH,
        )
        for piece, own in enumerate(owners)
    )
    return Plan(
        system="hierarchical-ring",
        hosts=job.workers,
        workers=len(job.workers),
        chunks=len(pieces) * across,
        programs=Stages(len(job.workers), [within(Turn.SCATTER), between, within(Turn.GATHER)]),
        shares=tuple(share for share in shares for _ in range(across)),
        pipelining=Pipelining(job.options.get("partition"), job.options.get("credit")),
    )


def _chunks(segment: int, segments: int, pieces: Sequence[Fraction], across: int) -> list[int]:
    """The chunks of all pieces that lie in ``segment`` of ``segments``."""
    return [
        piece * across + chunk
        for piece, start in enumerate(pieces)
        if int(start * segments) == segment
        for chunk in range(across)
    ]


class HierarchicalRingOptions(Options):
    """How pieces of the gradient follow one another through the stages."""

    partition: int | None = Field(
        default=None,
        ge=4,
        description="the bytes of the largest piece of a tensor that goes through the stages on its"
        " own, a whole number of at least 4; unset, buckets do; the fastest is one with which the"
        " pieces in flight do not overflow queues",
        examples=[512_000],
    )
    credit: int | None = Field(
        default=None,
        ge=1,
        description="the pieces that a worker has in flight at most, a whole number of at least 1;"
        " unset, any number",
        examples=[8],
    )


SYSTEM = System(
    name="hierarchical-ring",
    title="Hierarchical ring",
    colour="#aec7e8",
    marker="h",
    citation="Cho et al., BlueConnect: Decomposing All-Reduce for Deep Learning on Heterogeneous "
    "Network Hierarchy, SysML 2019",
    published=(
        "All-reduce is decomposed along the network's hierarchy: reduce-scatter within groups, "
        "parallel all-reduces across groups, all-gather within groups.",
    ),
    reading=(
        "There are two levels, and a group is a rack; each stage is a ring. Each of a rack's n "
        "workers takes the n-th part of the gradient that it owns across racks.",
        "Rina (ICNP 2024) compares with a hierarchical ring (H-AR) that may have a leader in each "
        "group instead; a leader would receive n-1 gradients at once.",
        "Racks need not be equal: the gradient is cut wherever any rack cuts it, so each piece has "
        "one owner in every rack, and these owners form a ring across racks. A worker of a small "
        "rack owns more and sends more across.",
        "A worker has any number of buckets in flight, as in the ring. One bucket is in the racks "
        "while another crosses them, so two streams enter a worker's port. If its queue is short, "
        "TCP loses packets, and small pieces (option partition) of which few are in flight (option "
        "credit) are faster.",
    ),
    servers=(0, 0),
    baseline=3,
    plan=plan,
    options=HierarchicalRingOptions,
)
