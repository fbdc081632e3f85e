"""Rings of circuits whose jumps are coprime to the number of hosts (TotientPerms of TopoOpt)."""

from __future__ import annotations

from math import gcd


def jumps(hosts: int, most: int) -> tuple[int, ...]:
    """At most ``most`` jumps. Each leads around all ``hosts``, each on a different ring.

    They are chosen as in the released code of TopoOpt (Wang et al., NSDI 2023): for each number of
    a geometric series, the first one from there on that is coprime to ``hosts`` and not used yet. A
    circuit is full duplex, so a jump and its negative are one ring.
    """
    coprime = [jump for jump in range(1, max(2, hosts)) if gcd(jump, hosts) == 1]
    factor = coprime[-1] ** (1 / max(1, most))
    found: list[int] = []
    wanted = 1.0
    while len(found) < most:
        free = [jump for jump in coprime if jump not in found and hosts - jump not in found]
        if not free:
            break
        found.append(next((jump for jump in free if jump >= wanted - 1e-9), free[0]))
        wanted *= factor
    return tuple(found)


def ways(hosts: int, chosen: tuple[int, ...]) -> tuple[int, ...]:
    """The jumps of directed rings: each of ``chosen`` forwards, and backwards if that differs."""
    return tuple(
        jump for one in chosen for jump in dict.fromkeys((one % hosts, -one % hosts)) if hosts > 1
    )
