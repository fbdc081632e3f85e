"""The fabric: hosts, switches and the links between them, as pure data.

Nothing here touches the system. Rates are bits per second and per direction,
queues are bytes, both of the real cluster (dilation comes later).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property

import networkx as nx


class Kind(str, Enum):
    HOST = "host"
    TOR = "tor"
    SPINE = "spine"


@dataclass(frozen=True)
class Node:
    """A host or a switch. ``rack`` is the number of its ToR, None above the ToRs."""

    name: str
    kind: Kind
    rack: int | None = None


@dataclass(frozen=True)
class Link:
    """A full-duplex link: ``rate`` in bit/s each way, ``queue`` in bytes at either end."""

    a: str
    b: str
    rate: float
    queue: int


@dataclass(frozen=True)
class Fabric:
    """A graph of typed nodes; ``ina`` names the switches that aggregate, each with ``slots``."""

    name: str
    nodes: dict[str, Node]
    links: tuple[Link, ...]
    ina: frozenset[str] = frozenset()
    slots: int = 4096
    _paths: dict[str, dict[str, int]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @cached_property
    def graph(self) -> nx.Graph:
        graph = nx.Graph()
        graph.add_nodes_from(self.nodes)
        graph.add_edges_from((link.a, link.b, {"link": link}) for link in self.links)
        return graph

    def _of_kind(self, *kinds: Kind) -> tuple[str, ...]:
        return tuple(node.name for node in self.nodes.values() if node.kind in kinds)

    @cached_property
    def hosts(self) -> tuple[str, ...]:
        return self._of_kind(Kind.HOST)

    @cached_property
    def tors(self) -> tuple[str, ...]:
        return self._of_kind(Kind.TOR)

    @cached_property
    def switches(self) -> tuple[str, ...]:
        return tuple(node.name for node in self.nodes.values() if node.kind is not Kind.HOST)

    @cached_property
    def _tor_of(self) -> dict[str, str]:
        return {
            host: tor
            for tor in self.tors
            for host in self.graph[tor]
            if self.nodes[host].kind is Kind.HOST
        }

    def tor_of(self, host: str) -> str:
        """The ToR that ``host`` hangs from. KeyError for anything but a host."""
        return self._tor_of[host]

    def rack_hosts(self, tor: str) -> tuple[str, ...]:
        return tuple(host for host in self.hosts if self._tor_of[host] == tor)

    def neighbours(self, node: str) -> tuple[str, ...]:
        """Neighbours in the order in which the links were made; it numbers a switch's ports."""
        return tuple(self.graph[node])

    def link(self, a: str, b: str) -> Link:
        link: Link = self.graph.edges[a, b]["link"]
        return link

    def next_hops(self, node: str, destination: str) -> tuple[str, ...]:
        """The neighbours of ``node`` on a shortest path to ``destination``: its ECMP set."""
        distance = self._distances(destination)
        return tuple(n for n in self.graph[node] if distance[n] == distance[node] - 1)

    def _distances(self, destination: str) -> dict[str, int]:
        if destination not in self._paths:
            # A host forwards nothing, so no path may lead through one.
            forwarding = self.graph.subgraph([*self.switches, destination])
            distance = dict(nx.single_source_shortest_path_length(forwarding, destination))
            for host in self.hosts:
                if host != destination:
                    distance[host] = distance[self._tor_of[host]] + 1
            self._paths[destination] = distance
        return self._paths[destination]

    def with_ina(self, switches: Iterable[str]) -> Fabric:
        """The same fabric with other switches aggregating. KeyError names an unknown one."""
        chosen = frozenset(switches)
        if unknown := chosen - set(self.switches):
            raise KeyError(f"not a switch of {self.name}: {', '.join(sorted(unknown))}")
        return replace(self, ina=chosen)
