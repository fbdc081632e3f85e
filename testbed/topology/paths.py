"""Walks over the equally short paths of a fabric (ECMP)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from testbed.topology.fabric import Fabric

Link: TypeAlias = tuple[str, str]
"""A directed link, from one node to its neighbour."""

Choice: TypeAlias = Callable[[str, Sequence[str]], str]
"""Chooses, at a node, one of the equally good next hops for a flow."""


def first(_: str, hops: Sequence[str]) -> str:
    """Always the same choice, where any shortest path will do."""
    return hops[0]


def path(fabric: Fabric, source: str, to: str, choice: Choice = first) -> tuple[str, ...]:
    """The nodes of one shortest path, both ends included. ValueError if there is none."""
    nodes = [source]
    while nodes[-1] != to:
        hops = fabric.next_hops(nodes[-1], to)
        if not hops:
            raise ValueError(f"{fabric.name}: there is no path from {source} to {to}")
        nodes.append(hops[0] if len(hops) == 1 else choice(nodes[-1], hops))
    return tuple(nodes)


class EvenPaths:
    """Flows that share equally short paths evenly, hop by hop."""

    def __init__(self, fabric: Fabric) -> None:
        self._fabric = fabric
        self._known: dict[tuple[str, str], Mapping[Link, float]] = {}

    def shares(self, source: str, to: str) -> Mapping[Link, float]:
        """The part of a flow on each link; every link on a shortest path has a part."""
        if (source, to) not in self._known:
            hops = self._fabric.next_hops(source, to)
            found = {(source, hop): 1 / len(hops) for hop in hops}
            for hop in hops:
                for link, share in self.shares(hop, to).items():
                    found[link] = found.get(link, 0.0) + share / len(hops)
            self._known[source, to] = found
        return self._known[source, to]
