"""Paths through a fabric: equally short ones (ECMP), and paths that are chosen for single flows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import TypeAlias

from testbed.topology.fabric import Fabric

Link: TypeAlias = tuple[str, str]
"""A directed link, from one node to its neighbour."""

Flow: TypeAlias = tuple[str, str]
"""What one node sends to another: (source, destination). Switches that sum are sources, too."""

Routes: TypeAlias = Mapping[Flow, Sequence[str]]
"""Flows that do not follow ECMP, each with the nodes of its path, both ends included."""

Choice: TypeAlias = Callable[[str, Sequence[str]], str]
"""Chooses, at a node, one of the equally good next hops for a flow."""


_POWER = 8
"""So high that the busiest link decides, and the others break ties."""

_MOST_ROUNDS = 20


def first(_: str, hops: Sequence[str]) -> str:
    """Always the same choice, for uses where any shortest path will do."""
    return hops[0]


def path(fabric: Fabric, source: str, to: str, choice: Choice = first) -> tuple[str, ...]:
    """The nodes of one shortest path, both ends included. Raises ValueError if there is none."""
    nodes = [source]
    while nodes[-1] != to:
        hops = fabric.next_hops(nodes[-1], to)
        if not hops:
            raise ValueError(f"{fabric.name}: there is no path from {source} to {to}")
        nodes.append(hops[0] if len(hops) == 1 else choice(nodes[-1], hops))
    return tuple(nodes)


def check(fabric: Fabric, routes: Routes) -> None:
    """Raise ValueError, which names the flow, if a route does not lead from its flow's source to
    its destination."""
    for (source, destination), route in routes.items():
        flow = f"the flow from {source} to {destination} cannot go"
        if not {source, destination} <= fabric.nodes.keys() or source == destination:
            raise ValueError(f"{flow} {'-'.join(route)}: it needs two nodes of {fabric.name}")
        if (*route[:1], *route[-1:]) != (source, destination):
            raise ValueError(f"{flow} {'-'.join(route)}: its route must begin and end at these")
        for here, there in pairwise(route[:-1]):
            if there not in fabric.switches or there not in fabric.neighbours(here):
                raise ValueError(f"{flow} via {there}, which is not a switch next to {here}")
            if route.count(there) > 1:
                raise ValueError(f"{flow} via {there} more than once")
        if route[-2] not in fabric.neighbours(destination):
            raise ValueError(f"{flow} there from {route[-2]}, which is not next to it")


def diverted(fabric: Fabric, routes: Routes, node: str) -> dict[Flow, str]:
    """The routed flows for which ``node`` needs a route of their own, each with the neighbour to
    which it goes. Flows whose neighbour is the only one on a shortest path need none.
    """
    return {
        (source, destination): there
        for (source, destination), route in routes.items()
        for here, there in pairwise(route)
        if here == node and fabric.next_hops(node, destination) != (there,)
    }


def spread(fabric: Fabric, flows: Mapping[Flow, float], routes: Routes | None = None) -> Routes:
    """A shortest path for each of ``flows`` that has a choice, so that no link is needlessly busy.

    ``flows`` gives the bytes of each flow, in any unit; flows in ``routes`` keep that path. The
    paths are a local optimum of a convex cost, a high power of the time that each link is busy.
    Each flow in turn, the largest first, takes the path that adds the least cost, until no flow
    would change its path.
    """
    kept = dict(routes or {})
    unit = min(link.rate for link in fabric.links)
    busy: dict[Link, float] = {}

    def load(route: Sequence[str], amount: float) -> None:
        for link in pairwise(route):
            busy[link] = busy.get(link, 0.0) + amount * unit / fabric.link(*link).rate

    def cheapest(source: str, to: str, amount: float) -> tuple[str, ...]:
        @cache
        def onwards(node: str) -> tuple[float, tuple[str, ...]]:
            if node == to:
                return 0.0, (to,)
            found = []
            for hop in fabric.next_hops(node, to):
                before = busy.get((node, hop), 0.0)
                after = before + amount * unit / fabric.link(node, hop).rate
                cost, rest = onwards(hop)
                found.append((cost + after**_POWER - before**_POWER, (node, *rest)))
            return min(found, key=lambda each: each[0])

        return onwards(source)[1]

    for flow, route in kept.items():
        load(route, flows.get(flow, 0.0))
    order = sorted((flow for flow in flows if flow not in kept), key=lambda flow: -flows[flow])
    chosen: dict[Flow, tuple[str, ...]] = {}
    for _ in range(_MOST_ROUNDS):
        before = dict(chosen)
        for flow in order:
            load(chosen.get(flow, ()), -flows[flow])
            chosen[flow] = cheapest(*flow, flows[flow])
            load(chosen[flow], flows[flow])
        if chosen == before:
            break
    return kept | {
        flow: route
        for flow, route in chosen.items()
        if any(len(fabric.next_hops(node, flow[1])) > 1 for node in route[:-1])
    }


class EvenPaths:
    """Flows that are spread evenly over equally short paths, hop by hop, unless they have a
    route."""

    def __init__(self, fabric: Fabric, routes: Routes | None = None) -> None:
        self._fabric = fabric
        self._known: dict[Flow, Mapping[Link, float]] = {
            flow: dict.fromkeys(pairwise(route), 1.0) for flow, route in (routes or {}).items()
        }

    def shares(self, source: str, to: str) -> Mapping[Link, float]:
        """The part of a flow on each link; every link on its paths has a part."""
        if (source, to) not in self._known:
            hops = self._fabric.next_hops(source, to)
            found = {(source, hop): 1 / len(hops) for hop in hops}
            for hop in hops:
                for link, share in self.shares(hop, to).items():
                    found[link] = found.get(link, 0.0) + share / len(hops)
            self._known[source, to] = found
        return self._known[source, to]
