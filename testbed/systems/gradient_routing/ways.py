"""How gradients may leave a rack, and the load of each way on the links."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import sqrt
from typing import TypeAlias

from testbed.topology.fabric import Fabric
from testbed.topology.paths import EvenPaths, path

Load: TypeAlias = Mapping[tuple[str, str], float]
"""The part of a stream on each directed link."""

MOST_WAYS = 512
"""About the most ways considered; on a large fabric only some switches are candidates."""


@dataclass(frozen=True)
class Way:
    """How gradients leave a rack: to ``switch``, which sums them, or straight to the server (None).

    ``load`` is the load of the stream in both directions, without the worker's own link. ``route``
    has all nodes from the worker's ToR to the server, None for shortest paths.
    """

    switch: str | None
    load: Load = field(compare=False)
    route: tuple[str, ...] | None = None


def there_and_back(paths: EvenPaths, a: str, b: str) -> Load:
    """A stream from ``a`` to ``b``, and the sums that return."""
    return {**paths.shares(a, b), **paths.shares(b, a)}


def past_switches(paths: EvenPaths, tor: str, server: str) -> Way:
    """The way to the server by shortest paths, on which no switch sums."""
    return Way(None, there_and_back(paths, tor, server))


def to_switch(paths: EvenPaths, tor: str, switch: str) -> Way:
    """The way to ``switch``, which sums, by shortest paths."""
    return Way(switch, there_and_back(paths, tor, switch))


def detours(fabric: Fabric, tor: str, server: str) -> list[Way]:
    """The ways to the server, and back, through a neighbour of the ToR that is on no shortest path.

    Neighbours from which a shortest path leads back over the ToR are left out.
    """
    paths = EvenPaths(fabric)
    shortest = paths.shares(tor, server)
    found = []
    for there in fabric.neighbours(tor):
        if there not in fabric.switches or tor == fabric.tor_of(server) or (tor, there) in shortest:
            continue
        if any(tor in link for link in paths.shares(there, server)):
            continue
        route = (tor, *path(fabric, there, server))
        up, down = pairwise(route), pairwise(route[::-1])
        found.append(Way(None, dict.fromkeys((*up, *down), 1.0), route))
    return found


def candidates(
    fabric: Fabric, tors: Collection[str], workers: int, most_ways: int = MOST_WAYS
) -> dict[str, Sequence[str]]:
    """The INA switches open to each rack: all of them or, if these are too many, the nearest of a
    selection."""
    switches = [switch for switch in fabric.switches if switch in fabric.ina]
    most = len(switches)
    if most * len(tors) > most_ways:
        # Each switch in use costs the server a stream, so about sqrt(workers) of them suffice.
        few = min(most, round(2 * sqrt(workers)))
        switches = [switches[place * most // few] for place in range(few)]
        most = max(2, most_ways // len(tors) - 1)
    return {tor: _nearest(fabric, tor, switches, most) for tor in tors}


def _nearest(fabric: Fabric, tor: str, switches: Sequence[str], most: int) -> Sequence[str]:
    """The ``most`` nearest of ``switches``, in their order."""
    if len(switches) <= most:
        return switches
    # Each rack counts from its own ToR, so that racks break ties differently.
    order = {switch: place for place, switch in enumerate(fabric.switches)}
    near = sorted(switches, key=lambda switch: (order[switch] - order[tor]) % len(order))
    near.sort(key=lambda switch: fabric.distance(switch, tor))
    return sorted(near[:most], key=order.__getitem__)
