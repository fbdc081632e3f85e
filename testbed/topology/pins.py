"""Flows that do not take a shortest path, as some routing strategies require.

A pin names the neighbour of its ToR to which a flow goes first; from there it takes shortest paths.
"""

from __future__ import annotations

from collections.abc import Mapping

from testbed.topology.fabric import Fabric

Pins = Mapping[tuple[str, str], str]
"""(source host, destination host) -> a switch next to the source's ToR."""


def check(fabric: Fabric, pins: Pins) -> None:
    """ValueError names a pin that leads nowhere, or back over the source's ToR."""
    for (source, destination), waypoint in pins.items():
        flow = f"the flow from {source} to {destination} cannot go via {waypoint}"
        if not {source, destination} <= set(fabric.hosts) or source == destination:
            raise ValueError(f"{flow}: it needs two hosts of {fabric.name}")
        tor = fabric.tor_of(source)
        if waypoint not in fabric.switches or waypoint not in fabric.neighbours(tor):
            raise ValueError(f"{flow}, which is not a switch next to {tor}")
        if tor in _ways(fabric, waypoint, destination):
            raise ValueError(f"{flow}: a shortest path from there leads back over {tor}")


def _ways(fabric: Fabric, source: str, destination: str) -> set[str]:
    """Every node on a shortest path between two nodes."""
    found, fresh = {source}, {source}
    while fresh:
        fresh = {hop for node in fresh for hop in fabric.next_hops(node, destination)} - found
        found |= fresh
    return found
