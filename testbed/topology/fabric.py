"""The fabric: hosts, switches and the links between them, as pure data.

Nothing here touches the system. Rates are in bits per second and per direction, queues in bytes.
Both are those of the real cluster: dilation is applied later.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property


class Kind(str, Enum):
    HOST = "host"
    TOR = "tor"
    AGGREGATION = "aggregation"
    CORE = "core"
    SPINE = "spine"


@dataclass(frozen=True)
class Node:
    """A host or a switch. ``rack`` is the number of its ToR, None above the ToRs."""

    name: str
    kind: Kind
    rack: int | None = None


@dataclass(frozen=True)
class Link:
    """A full-duplex link: ``rate`` in bit/s per direction, ``queue`` in bytes at each end."""

    a: str
    b: str
    rate: float
    queue: int


@dataclass(frozen=True)
class Fabric:
    """A graph of typed nodes; ``ina`` names the switches that aggregate, each with ``slots``.

    A host forwards nothing. It is linked to one switch, and a switch with a host is a ToR.

    Attributes:
        capacity: bit/s of gradients that a switch can aggregate; a switch that is not named here is
            limited only by its links.
        values: int32 values in a packet that switches sum; the width of their memory.
        mtu: bytes of the largest IP packet on a link.
        link_delay, pipeline_latency: seconds that a packet takes on a link, and through a switch,
            besides its transmission.
        packet_cost, message_cost: seconds of a host's processor for each packet and each message
            that it sends or receives, one after another (the overhead o of LogP, Culler et al.,
            PPoPP 1993).
        packet_costs: for hosts whose packets do not cost ``packet_cost``, what they cost.
        step_latency: seconds that each dependent step costs at a host (the α of the closed
            forms).
        jumps: if hosts are linked by circuits, the jumps of these: host i is linked to i + jump.
        reconfiguration: seconds until circuits are set up, before jobs begin.
    """

    name: str
    nodes: dict[str, Node]
    links: tuple[Link, ...]
    ina: frozenset[str] = frozenset()
    slots: int = 4096
    values: int = 256
    mtu: int = 1500
    capacity: Mapping[str, float] = field(default_factory=dict)
    step_latency: float = 0.0
    packet_cost: float = 0.0
    message_cost: float = 0.0
    packet_costs: Mapping[str, float] = field(default_factory=dict)
    link_delay: float = 0.0
    pipeline_latency: float = 0.0
    jumps: tuple[int, ...] = ()
    reconfiguration: float = 0.0
    _hops: dict[tuple[str, str], tuple[str, ...]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    _distances: dict[str, dict[str, int]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @cached_property
    def adjacent(self) -> dict[str, dict[str, Link]]:
        """The links of each node, by neighbour, in the order of ``links``."""
        found: dict[str, dict[str, Link]] = {name: {} for name in self.nodes}
        for link in self.links:
            found.setdefault(link.a, {})[link.b] = link
            found.setdefault(link.b, {})[link.a] = link
        return found

    @cached_property
    def _switch_neighbours(self) -> dict[str, tuple[str, ...]]:
        switches = set(self.switches)
        return {
            switch: tuple(other for other in self.adjacent[switch] if other in switches)
            for switch in self.switches
        }

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
    def _racks(self) -> dict[str, tuple[str, ...]]:
        racks: dict[str, list[str]] = {tor: [] for tor in self.tors}
        for host in self.hosts:
            racks[self._tor_of[host]].append(host)
        return {tor: tuple(hosts) for tor, hosts in racks.items()}

    @cached_property
    def _tor_of(self) -> dict[str, str]:
        return {
            host: tor
            for tor in self.tors
            for host in self.adjacent[tor]
            if self.nodes[host].kind is Kind.HOST
        }

    def tor_of(self, host: str) -> str:
        """The ToR of ``host``. Raises KeyError for anything but a host."""
        return self._tor_of[host]

    def rack_hosts(self, switch: str) -> tuple[str, ...]:
        """The hosts of the rack of ``switch``; none unless it is a ToR."""
        return self._racks.get(switch, ())

    def neighbours(self, node: str) -> tuple[str, ...]:
        """Neighbours in the order of the links, which is also the order of a switch's ports."""
        return tuple(self.adjacent[node])

    def link(self, a: str, b: str) -> Link:
        return self.adjacent[a][b]

    def next_hops(self, node: str, destination: str) -> tuple[str, ...]:
        """The neighbours of ``node`` on a shortest path to ``destination``: its ECMP set.

        Empty if there is no path, or if both are the same node.
        """
        if node == destination:
            return ()
        if node in self._tor_of:
            return (self._tor_of[node],)
        tor = self._tor_of.get(destination, destination)
        if node == tor:
            return (destination,)
        if (node, tor) not in self._hops:
            distance = self._distances_to(tor)
            self._hops[node, tor] = tuple(
                neighbour
                for neighbour in self._switch_neighbours[node]
                if node in distance and distance[neighbour] == distance[node] - 1
            )
        return self._hops[node, tor]

    def distance(self, a: str, b: str) -> int:
        """The number of links on a shortest path between two switches. Raises KeyError if there is
        none."""
        return self._distances_to(b)[a]

    def _distances_to(self, switch: str) -> dict[str, int]:
        """Hops from every switch that can reach ``switch``, breadth first; hosts are left out."""
        if switch not in self._distances:
            distance = {switch: 0}
            reached = [switch]
            for at in reached:
                for neighbour in self._switch_neighbours[at]:
                    if neighbour not in distance:
                        distance[neighbour] = distance[at] + 1
                        reached.append(neighbour)
            self._distances[switch] = distance
        return self._distances[switch]

    def with_ina(self, switches: Iterable[str]) -> Fabric:
        """The same fabric in which exactly ``switches`` aggregate. Raises KeyError for an unknown
        one."""
        chosen = frozenset(switches)
        if unknown := chosen - set(self.switches):
            raise KeyError(f"not a switch of {self.name}: {', '.join(sorted(unknown))}")
        return replace(self, ina=chosen)
