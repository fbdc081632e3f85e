"""How gradients may leave a rack, and the load of each way on the links."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeAlias

from testbed.topology.fabric import Fabric
from testbed.topology.paths import EvenPaths, path

Load: TypeAlias = Mapping[tuple[str, str], float]
"""The part of a stream on each directed link."""


@dataclass(frozen=True)
class Way:
    """How gradients leave a rack: to ``switch``, which sums them, or straight to the server (None).

    ``load`` is the load of the stream in both directions, without the worker's own link. ``route``
    has all nodes from the worker's ToR to the server, None for shortest paths.
    """

    switch: str | None
    load: Load = field(compare=False)
    route: tuple[str, ...] | None = None


def flow(fabric: Fabric, source: str, to: str) -> Load:
    """The part of a flow on each directed link, ECMP sets sharing evenly."""
    return EvenPaths(fabric).shares(source, to)


def there_and_back(fabric: Fabric, a: str, b: str) -> Load:
    """A stream from ``a`` to ``b``, and the sums that return."""
    return {**flow(fabric, a, b), **flow(fabric, b, a)}


def past_switches(fabric: Fabric, tor: str, server: str) -> Way:
    """To the server by shortest paths."""
    return Way(None, there_and_back(fabric, tor, server))


def to_switch(fabric: Fabric, tor: str, switch: str) -> Way:
    """To be summed in ``switch``, by shortest paths."""
    return Way(switch, there_and_back(fabric, tor, switch))


def detours(fabric: Fabric, tor: str, server: str) -> list[Way]:
    """To the server through a neighbour of the ToR that is on no shortest path, and back so.

    Neighbours from which a shortest path leads back over the ToR are left out.
    """
    shortest = flow(fabric, tor, server)
    found = []
    for there in fabric.neighbours(tor):
        if there not in fabric.switches or tor == fabric.tor_of(server) or (tor, there) in shortest:
            continue
        if any(tor in link for link in flow(fabric, there, server)):
            continue
        route = (tor, *path(fabric, there, server))
        up, down = pairwise(route), pairwise(route[::-1])
        found.append(Way(None, dict.fromkeys((*up, *down), 1.0), route))
    return found
