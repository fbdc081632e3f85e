"""The switches that aggregate, and the hosts of a job."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from fractions import Fraction

from testbed.topology.fabric import Fabric


def ina_switches(
    fabric: Fabric,
    wanted: int | float,
    policy: str = "fullest",
    tier: str = "tor",
    seed: int = 0,
) -> frozenset[str]:
    """A number (int) or a share (float, rounded to the nearest number) of the switches.

    ``policy`` orders the candidates, and the first ones are taken: ``fullest`` rack first, or
    ``random``, drawn with ``seed``. A smaller set is always a subset of a larger one. ``tier`` is
    ``tor``, or ``any`` for all switches. Raises ValueError if there are too few.
    """
    candidates = list(fabric.tors if tier == "tor" else fabric.switches)
    # With Fraction, half of 3 ToRs does not depend on how floats are rounded.
    count = (
        wanted
        if isinstance(wanted, int)
        else int(Fraction(wanted).limit_denominator(10_000) * len(candidates) + Fraction(1, 2))
    )
    if count > len(candidates):
        raise ValueError(f"{count} INA switches wanted of {len(candidates)}")
    if policy == "random":
        random.Random(f"{seed}/ina").shuffle(candidates)
    else:
        candidates.sort(key=lambda switch: -len(fabric.rack_hosts(switch)))
    return frozenset(candidates[:count])


def place(
    fabric: Fabric, policy: str, count: int, taken: Collection[str] = (), seed: int = 0
) -> tuple[str, ...]:
    """``count`` hosts that are not ``taken``, chosen by ``policy`` and listed rack by rack.

    ``packed`` fills rack after rack, ``spread`` takes one host of each rack in turn, ``random``
    draws with ``seed``. Raises ValueError if too few hosts are free.
    """
    racks = [[h for h in fabric.rack_hosts(tor) if h not in taken] for tor in fabric.tors]
    free = [host for rack in racks for host in rack]
    if count > len(free):
        raise ValueError(f"{count} hosts wanted, {len(free)} free")
    if policy == "spread":
        order = _dealt(racks)
    elif policy == "random":
        order = random.Random(f"{seed}/hosts").sample(free, len(free))
    else:
        order = free
    chosen = set(order[:count])
    return tuple(host for host in free if host in chosen)


def _dealt(racks: Sequence[Sequence[str]]) -> list[str]:
    longest = max(map(len, racks), default=0)
    return [rack[turn] for turn in range(longest) for rack in racks if turn < len(rack)]
