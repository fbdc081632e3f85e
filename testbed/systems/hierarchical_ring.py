"""Hierarchical ring: reduce-scatter in the racks, rings across them, all-gather in the racks."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

from testbed.plan.program import LazyPrograms, Plan, Ring
from testbed.systems.racks import by_rack
from testbed.systems.ring import Programs, gather, hops, scatter, transfer
from testbed.systems.system import Assignment, System
from testbed.topology.fabric import Fabric


def plan(job: Assignment, fabric: Fabric) -> Plan:
    """Pieces of the bucket with one owner in each rack; each piece has a chunk for each rack."""
    ranks = {host: rank for rank, host in enumerate(job.workers)}
    racks = [[ranks[host] for host in rack] for rack in by_rack(job.workers, fabric).values()]
    # A rack of n owns n equal segments. Pieces lie between all racks' cuts, so that none of
    # them is divided between two owners, however uneven the racks are.
    cuts = sorted({Fraction(at, len(rack)) for rack in racks for at in range(len(rack) + 1)})
    pieces = [start for start, _ in pairwise(cuts)]
    across = len(racks)
    owners = [[rack[int(start * len(rack)) - 1] for rack in racks] for start in pieces]
    shares = [(end - start) / across for start, end in pairwise(cuts)]

    def write() -> Programs:
        programs: Programs = [[] for _ in job.workers]
        for rack in racks:
            for segment, source, to in scatter(len(rack)):
                for chunk in _chunks(segment, len(rack), pieces, across):
                    transfer(programs, chunk, rack[source], rack[to], reduce=True)
        for piece, own in enumerate(owners):
            for chunk, source, to in scatter(across):
                transfer(programs, piece * across + chunk, own[source], own[to], reduce=True)
            for chunk, source, to in gather(across):
                transfer(programs, piece * across + chunk, own[source], own[to], reduce=False)
        for rack in racks:
            for segment, source, to in gather(len(rack)):
                for chunk in _chunks(segment, len(rack), pieces, across):
                    transfer(programs, chunk, rack[source], rack[to], reduce=False)
        return programs

    within = tuple(
        Ring(len(rack) - 1, Fraction(1, len(rack)), hops(rack)) for rack in racks if len(rack) > 1
    )
    between = tuple(
        Ring(2 * (across - 1), share, hops(own))
        for share, own in zip(shares, owners, strict=True)
        if across > 1
    )
    return Plan(
        system="hierarchical-ring",
        hosts=job.workers,
        workers=len(job.workers),
        chunks=len(pieces) * across,
        programs=LazyPrograms(len(job.workers), write),
        shares=tuple(share for share in shares for _ in range(across)),
        stretches=tuple(stretch for stretch in (within, between, within) if stretch),
    )


def _chunks(segment: int, segments: int, pieces: Sequence[Fraction], across: int) -> list[int]:
    """The chunks of all pieces that lie in ``segment`` of ``segments``."""
    return [
        piece * across + chunk
        for piece, start in enumerate(pieces)
        if int(start * segments) == segment
        for chunk in range(across)
    ]


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
        "workers takes the n-th of the gradient that it owns across racks.",
        "Rina (ICNP 2024) compares with a hierarchical ring (H-AR) that may have a leader in each "
        "group instead; at a leader n-1 gradients would meet.",
        "Racks need not be equal: the gradient is cut wherever one of the racks cuts it, so each "
        "piece has one owner in every rack, and a ring across racks through these. A worker of a "
        "small rack owns more and sends more across.",
    ),
    servers=(0, 0),
    baseline=3,
    plan=plan,
)
