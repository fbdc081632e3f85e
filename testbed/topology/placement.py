"""Which ToRs aggregate, and which hosts work for a job."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from fractions import Fraction

from testbed.topology.fabric import Fabric


def ina_tors(fabric: Fabric, fraction: float) -> frozenset[str]:
    """The share ``fraction`` of the ToRs, rounded to the nearest count, fullest rack first."""
    # Fraction keeps 0.5 of 3 ToRs from depending on how a float rounds.
    count = int(Fraction(fraction).limit_denominator(10_000) * len(fabric.tors) + Fraction(1, 2))
    fullest = sorted(fabric.tors, key=lambda tor: -len(fabric.rack_hosts(tor)))
    return frozenset(fullest[:count])


def packed(fabric: Fabric, count: int, taken: Collection[str] = ()) -> tuple[str, ...]:
    """The first ``count`` free hosts, rack by rack."""
    return _first(count, [host for host in fabric.hosts if host not in taken])


def spread(fabric: Fabric, count: int, taken: Collection[str] = ()) -> tuple[str, ...]:
    """``count`` free hosts, dealt to the racks in turn, listed rack by rack."""
    racks = [[h for h in fabric.rack_hosts(tor) if h not in taken] for tor in fabric.tors]
    dealt = [
        rack[turn]
        for turn in range(max(map(len, racks), default=0))
        for rack in racks
        if turn < len(rack)
    ]
    chosen = set(_first(count, dealt))
    return tuple(host for host in fabric.hosts if host in chosen)


def _first(count: int, hosts: Sequence[str]) -> tuple[str, ...]:
    if count > len(hosts):
        raise ValueError(f"{count} hosts wanted, {len(hosts)} free")
    return tuple(hosts[:count])
