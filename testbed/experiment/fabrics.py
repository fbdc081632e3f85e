"""The kinds of fabric in an experiment file.

Each kind gives its hosts and switches the same names as ``topology.builders``, which a test checks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice, product
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field

from testbed.experiment.fields import Model, Rate, Rates, Ratio, Size, Time, count, sequence
from testbed.experiment.nodes import Ends, Ina, Racks, Switches
from testbed.topology.circuits import jumps

MOST_NODES = 100_000  # a fat-tree of 64 pods fits
MOST_ADDRESSED = 254  # racks, hosts in a rack, switches above: the limits of topology.addressing


class _Fabric(Model):
    """The fields of every kind of fabric."""

    kind: str
    host_rate: Rate = Field(
        description="the rate of a host's link in each direction, with its unit",
        examples=["10Gbit"],
    )
    queue: Size = Field(
        default=256_000,
        description="the queue size of every port, with its unit",
        examples=["256KB"],
    )
    ina: Ina = Field(
        default="all",
        description="the switches that aggregate: all, none, a list of switches, their number or"
        " a fraction of them from 0.0 to 1.0",
        examples=["all"],
    )
    ina_policy: Literal["fullest", "random", "best"] = Field(
        default="fullest",
        description="the switches that a number or a fraction selects first: fullest (racks with"
        " most hosts), random, or best (for the jobs, by simulation)",
        examples=["fullest"],
    )
    ina_tier: Literal["tor", "any"] = Field(
        default="tor",
        description="the switches to which all, a number or a fraction refers: tor or any",
        examples=["tor"],
    )
    routing: Literal["ecmp", "spread"] = Field(
        default="ecmp",
        description="how packets choose among equally short paths: ecmp (each router hashes"
        " addresses and ports) or spread (a controller, which knows the flows of all jobs, gives"
        " each its path, so that no link is needlessly busy)",
        examples=["spread"],
    )
    slots: Annotated[int, count("the aggregators in each INA switch's memory", 4096)] = 4096
    values: Literal[64, 256, 1024] = Field(
        default=256,
        description="the 32-bit values in a packet that switches sum: 64, 256 or 1024 (with an mtu"
        " of 9000)",
        examples=[256],
    )
    mtu: Annotated[
        int, count("the bytes of the largest IP packet on a link", 1500, least=576, most=9216)
    ] = 1500
    capacity: Rates | None = Field(
        default=None,
        description="the rate of gradients that an INA switch can aggregate, with its unit, or a"
        " mapping of switches to rates; without it only links limit a switch",
        examples=["100Gbit"],
    )
    step_latency: Time = Field(
        default=0.0,
        description="the latency of each dependent step at a host, with its unit",
        examples=["10us"],
    )
    packet_cost: Time = Field(
        default=0.0,
        description="with backend: packet, the time that a host's processor takes for each packet"
        " that it sends or receives, with its unit",
        examples=["0s"],
    )
    message_cost: Time = Field(
        default=0.0,
        description="with backend: packet, the time that a host's processor takes for each message"
        " that it sends or receives, with its unit",
        examples=["0s"],
    )
    link_delay: Time = Field(
        default=0.0,
        description="with backend: packet, the time that a packet takes along a link, with its"
        " unit",
        examples=["0s"],
    )
    pipeline_latency: Time = Field(
        default=0.0,
        description="with backend: packet, the time that a packet takes through a switch's"
        " pipeline, with its unit",
        examples=["0s"],
    )

    room: ClassVar[str]
    """For messages: how to give such a fabric more hosts."""
    shape: ClassVar[frozenset[str]]
    """The fields on which the names of its nodes depend."""

    @property
    def racks(self) -> tuple[int, ...]:
        """Hosts under each ToR, in order."""
        raise NotImplementedError

    @property
    def size(self) -> int:
        """The number of nodes, computed without listing them."""
        raise NotImplementedError

    @property
    def host_names(self) -> tuple[str, ...]:
        return _numbered("h", sum(self.racks))

    @property
    def tor_names(self) -> tuple[str, ...]:
        return _numbered("t", len(self.racks))

    @property
    def names_above(self) -> tuple[str, ...]:
        """The switches that are not ToRs."""
        raise NotImplementedError

    @property
    def switch_names(self) -> tuple[str, ...]:
        return self.tor_names + self.names_above

    @property
    def links_above(self) -> Iterator[tuple[str, str]]:
        """The two ends of every link between switches."""
        raise NotImplementedError

    @property
    def link_ends(self) -> Iterator[tuple[str, str]]:
        """The two ends of every link, such as h0 and t0."""
        hosts = iter(self.host_names)
        for tor, size in zip(self.tor_names, self.racks, strict=True):
            yield from ((host, tor) for host in islice(hosts, size))
        yield from self.links_above


class _Tiered(_Fabric):
    """ToRs with hosts below them and uplinks above."""

    fabric_rate: Rate | None = Field(
        default=None,
        description="the rate of a link between switches; by default host_rate, or what"
        " oversubscription requires",
        examples=["10Gbit"],
    )
    oversubscription: Ratio | None = Field(
        default=None,
        description="the ratio of the fullest rack's total host rate to its total uplink rate;"
        " instead of fabric_rate",
        examples=[2],
    )

    @property
    def uplinks(self) -> int:
        """The number of uplinks of a ToR."""
        raise NotImplementedError

    @property
    def uplink_rate(self) -> float:
        """Rate of each link between switches, in bit/s."""
        if self.fabric_rate is not None:
            return self.fabric_rate
        if self.oversubscription is not None:
            return max(self.racks) * self.host_rate / (self.oversubscription * self.uplinks)
        return self.host_rate


class LeafSpine(_Tiered):
    """Leaves (ToRs) with hosts below them, every leaf linked to every spine.

    Hosts are named h0, h1, … rack by rack, ToRs t0, t1, …, spines s0, s1, ….
    """

    kind: Literal["leaf-spine"] = Field(
        description="the fabric's kind, leaf-spine", examples=["leaf-spine"]
    )
    spines: Annotated[int, count("the number of spine switches", 2)]
    leaves: Annotated[int, count("the number of leaf switches (ToRs)", 2)]
    hosts_per_leaf: Racks = Field(
        description="the hosts under each leaf, a whole number or a list with one for each leaf",
        examples=[5],
    )

    room = "raise fabric.hosts_per_leaf"
    shape = frozenset({"spines", "leaves", "hosts_per_leaf"})

    @property
    def racks(self) -> tuple[int, ...]:
        return _racks(self.hosts_per_leaf, self.leaves)

    @property
    def size(self) -> int:
        return _hosts(self.hosts_per_leaf, self.leaves) + self.leaves + self.spines

    @property
    def uplinks(self) -> int:
        return self.spines

    @property
    def names_above(self) -> tuple[str, ...]:
        return _numbered("s", self.spines)

    @property
    def links_above(self) -> Iterator[tuple[str, str]]:
        return product(self.tor_names, self.names_above)


class FatTree(_Tiered):
    """A three-tier fat-tree of k pods with k/2 edge switches (ToRs) each.

    Hosts are named h0, h1, … rack by rack, ToRs t0, t1, … and aggregation switches a0, a1, … pod
    by pod, cores c0, c1, ….
    """

    kind: Literal["fat-tree"] = Field(
        description="the fabric's kind, fat-tree", examples=["fat-tree"]
    )
    k: int = Field(
        ge=2,
        multiple_of=2,
        description="the number of pods, an even whole number of at least 2",
        examples=[4],
    )
    hosts_per_edge: Racks | None = Field(
        default=None,
        description="the hosts under each edge switch, a whole number or a list with one for each;"
        " by default half of k",
        examples=[2],
    )

    room = "raise fabric.k or fabric.hosts_per_edge"
    shape = frozenset({"k", "hosts_per_edge"})

    @property
    def edges(self) -> int:
        """The number of edge switches, and of aggregation switches."""
        return self.k * self.k // 2

    @property
    def racks(self) -> tuple[int, ...]:
        return _racks(self.hosts_per_edge or self.uplinks, self.edges)

    @property
    def size(self) -> int:
        hosts = _hosts(self.hosts_per_edge or self.uplinks, self.edges)
        return hosts + 2 * self.edges + self.uplinks**2

    @property
    def uplinks(self) -> int:
        return self.k // 2

    @property
    def names_above(self) -> tuple[str, ...]:
        return _numbered("a", self.edges) + _numbered("c", self.uplinks**2)

    @property
    def links_above(self) -> Iterator[tuple[str, str]]:
        for one, other in product(range(self.edges), range(self.uplinks)):
            yield f"t{one}", f"a{one - one % self.uplinks + other}"
            yield f"a{one}", f"c{one % self.uplinks * self.uplinks + other}"


class GraphLink(Model):
    """A link of a graph."""

    ends: Ends = Field(description="a list of two nodes", examples=[["S1", "S2"]])
    rate: Rate = Field(
        description="the rate of the link in each direction, with its unit", examples=["10Gbit"]
    )


class Graph(_Fabric):
    """Any fabric, node by node. Switches with hosts are ToRs.

    ``links`` connect the switches. A link between a host and its switch gives this host its own
    rate.
    """

    kind: Literal["graph"] = Field(description="the fabric's kind, graph", examples=["graph"])
    switches: Switches = Field(
        description="a mapping of every switch to a list of the hosts on it",
        examples=[{"S1": ["W1", "W2"], "S2": ["PS"]}],
    )
    links: Annotated[tuple[GraphLink, ...], BeforeValidator(sequence)] = Field(
        default=(),
        description="a list of links, each with ends and rate",
        examples=[[{"ends": ["S1", "S2"], "rate": "10Gbit"}]],
    )

    room = "add hosts to fabric.switches"
    shape = frozenset({"switches"})

    @property
    def racks(self) -> tuple[int, ...]:
        return tuple(len(hosts) for hosts in self.switches.values() if hosts)

    @property
    def size(self) -> int:
        return len(self.switches) + sum(self.racks)

    @property
    def tor_of(self) -> Mapping[str, str]:
        """Every host's switch."""
        return {host: switch for switch, hosts in self.switches.items() for host in hosts}

    @property
    def host_names(self) -> tuple[str, ...]:
        return tuple(self.tor_of)

    @property
    def tor_names(self) -> tuple[str, ...]:
        return tuple(switch for switch, hosts in self.switches.items() if hosts)

    @property
    def names_above(self) -> tuple[str, ...]:
        return tuple(switch for switch, hosts in self.switches.items() if not hosts)

    @property
    def switch_names(self) -> tuple[str, ...]:
        return tuple(self.switches)

    @property
    def links_above(self) -> Iterator[tuple[str, str]]:
        return (link.ends for link in self.links if not set(link.ends) & self.tor_of.keys())


class Circuits(_Fabric):
    """Hosts with several links each, on a switch of circuits that connects them in rings.

    ``host_rate`` is the rate of each link. Hosts are named h0, h1, …, their forwarding parts t0,
    t1, ….
    """

    kind: Literal["circuits"] = Field(
        description="the fabric's kind, circuits", examples=["circuits"]
    )
    hosts: Annotated[int, count("the number of hosts", 12, least=2)]
    host_links: int = Field(
        ge=2,
        multiple_of=2,
        description="the links of each host, an even whole number of at least 2",
        examples=[4],
    )
    circuits: Annotated[tuple[int, ...], BeforeValidator(sequence)] = Field(
        default=(),
        description="a list of jumps, each with a circuit from every host to the one that many"
        " further on; by default they are chosen for all-reduce, as TopoOpt does",
        examples=[[1, 5]],
    )
    reconfiguration: Time = Field(
        default=0.0,
        description="the time until circuits are set up, before jobs begin, with its unit",
        examples=["10ms"],
    )
    ina: Ina = Field(
        default="none",
        description="none: there are no switches that could aggregate",
        examples=["none"],
    )

    room = "raise fabric.hosts"
    shape = frozenset({"hosts", "host_links", "circuits"})

    @property
    def racks(self) -> tuple[int, ...]:
        return (1,) * self.hosts

    @property
    def size(self) -> int:
        return 2 * self.hosts

    @property
    def jumps(self) -> tuple[int, ...]:
        """One jump for each two links of a host. If there are too few different ones, some are
        repeated."""
        most = self.host_links // 2
        chosen = self.circuits or jumps(self.hosts, most)
        return self.circuits or tuple(chosen[each % len(chosen)] for each in range(most))

    @property
    def names_above(self) -> tuple[str, ...]:
        return ()

    @property
    def links_above(self) -> Iterator[tuple[str, str]]:
        pairs = (
            sorted((host, (host + jump) % self.hosts))
            for host in range(self.hosts)
            for jump in self.jumps
        )
        return iter(dict.fromkeys((f"t{one}", f"t{other}") for one, other in pairs))


Fabric = Annotated[LeafSpine | FatTree | Graph | Circuits, Field(discriminator="kind")]
KINDS: Mapping[str, type[LeafSpine] | type[FatTree] | type[Graph] | type[Circuits]] = {
    "leaf-spine": LeafSpine,
    "fat-tree": FatTree,
    "graph": Graph,
    "circuits": Circuits,
}


def _racks(hosts: int | tuple[int, ...], racks: int) -> tuple[int, ...]:
    return (hosts,) * racks if isinstance(hosts, int) else hosts


def _hosts(hosts: int | tuple[int, ...], racks: int) -> int:
    return hosts * racks if isinstance(hosts, int) else sum(hosts)


def _numbered(letter: str, count: int) -> tuple[str, ...]:
    return tuple(f"{letter}{number}" for number in range(count))
