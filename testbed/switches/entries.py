"""What an INA switch must be told, derived from the fabric and the jobs' trees.

No system writes table entries by hand. Table and action names are those of ``p4/ina.p4``.
"""

from __future__ import annotations

import ipaddress
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from testbed import wire
from testbed.plan.trees import Style, Tree
from testbed.switches.control import Control, Exact, Lpm, Replica, TableEntry
from testbed.topology.addressing import Addressing
from testbed.topology.fabric import Fabric
from testbed.topology.framing import framing

STYLES = {Style.ATP: 1, Style.SWITCHML: 2, Style.RACK: 3, Style.NETREDUCE: 4}
"""Numbers of the styles in ``p4/headers.p4``."""


@dataclass(frozen=True)
class Allocation:
    """A tree as switches are told of it.

    Attributes:
        number: the tree's number in packets, unique in a run.
        job: the number of the job for which its events are counted.
        first, slots: its part of every switch's memory; trees of style ATP may share theirs.
    """

    number: int
    job: int
    tree: Tree
    first: int
    slots: int


@dataclass(frozen=True)
class SwitchEntries:
    """Table entries and multicast groups of one switch.

    ``long_queue``: packets in a port's queue from which on it marks what leaves (ECN); 0: never.
    """

    entries: tuple[TableEntry, ...]
    groups: Mapping[int, tuple[Replica, ...]]
    long_queue: int = 0

    def install(self, control: Control) -> None:
        """Tell the switch. ControlError if it refuses."""
        for group, replicas in self.groups.items():
            control.multicast_group(group, replicas)
        for entry in self.entries:
            control.insert(entry)
        control.write_register("InaEgress.ecn_depth", 0, self.long_queue)


def derive(
    switch: str,
    fabric: Fabric,
    addressing: Addressing,
    allocations: Sequence[Allocation],
    seed: int = 0,
) -> SwitchEntries:
    """Entries of ``switch``: its routes, hashed by ``seed``, and its part in each tree."""
    joined = [each for each in allocations if switch in each.tree.switches]
    # A sum takes the tree's own way to the parent, and not the one that ECMP would draw.
    ways = {
        parent: each.tree.hop(switch, fabric.next_hops(switch, parent))
        for each in joined
        if (parent := each.tree.parent.get(switch)) is not None
    }
    entries: list[TableEntry] = []
    groups: dict[int, tuple[Replica, ...]] = {}
    rid = connections = 0
    for group, each in enumerate(joined, start=1):  # group 0 means no multicast
        part = _Part(switch, fabric, addressing, each, group)
        entries.append(part.entry())
        replicas = []
        for child in each.tree.children(switch):
            rid += 1
            hop = each.tree.hop(child, fabric.next_hops(switch, child))
            replicas.append(Replica(addressing.port(switch, hop), rid))
            entries.append(part.replica(child, hop, rid))
            if each.tree.style is Style.NETREDUCE and child in each.tree.rank_of:
                entries.append(part.connection(child, connections))
                connections += 1
        groups[group] = tuple(replicas)
    # Last: what NetReduce's hosts send to one another may not pass before it is summed, even while
    # a switch that was started again is told what it must know.
    entries += _routes(switch, fabric, addressing, ways, seed)
    # Only ATP's hosts answer to ECN. Windows are made to fill half of a queue; more is a queue
    # that others fill as well.
    marks = any(each.tree.style is Style.ATP for each in joined)
    queue = min(fabric.link(switch, neighbour).queue for neighbour in fabric.neighbours(switch))
    long_queue = 3 * queue // (4 * framing(fabric).frame) if marks else 0
    return SwitchEntries(tuple(entries), groups, long_queue)


@dataclass(frozen=True)
class _Part:
    """What ``switch`` is told of one tree."""

    switch: str
    fabric: Fabric
    addressing: Addressing
    allocation: Allocation
    group: int

    def entry(self) -> TableEntry:
        style = self.allocation.tree.style
        return TableEntry(
            "InaIngress.trees",
            (Exact(self._own), Exact(self.allocation.number)),
            "InaIngress.join",
            (STYLES[style], *self._parameters, int(style is Style.ATP)),
        )

    def connection(self, child: str, index: int) -> TableEntry:
        """NetReduce's lookup of the connection on which the member ``child`` sends."""
        tree, number = self.allocation.tree, self.allocation.number
        rank = tree.rank_of[child]
        return TableEntry(
            "InaIngress.connections",
            (Exact(_number(self.addressing.ip(child))), Exact(wire.connection(number, rank))),
            "InaIngress.join_connection",
            (index, 1 << rank, number, *self._parameters),
        )

    def replica(self, child: str, hop: str, rid: int) -> TableEntry:
        """How the copy for ``child`` is addressed."""
        ip = _number(self.addressing.ip(child))
        macs = (self.addressing.mac(self.switch), self.addressing.mac(hop))
        tree = self.allocation.tree
        if tree.style is Style.NETREDUCE and child in tree.rank_of:
            sender = tree.predecessor(child)
            peer = _number(self.addressing.ip(sender))
            connection = wire.connection(self.allocation.number, tree.rank_of[sender])
            action, params = "connect", [ip, peer, connection, *macs]
        else:
            action, params = "address", [ip, *macs]
        table = "InaEgress.replication"
        return TableEntry(f"{table}.replicas", (Exact(rid),), f"{table}.{action}", tuple(params))

    @property
    def _own(self) -> int:
        return _number(self.addressing.ip(self.switch))

    @property
    def _parameters(self) -> tuple[int, ...]:
        tree = self.allocation.tree
        parent = tree.parent.get(self.switch)
        return (
            self.allocation.job,
            sum(1 << rank for rank in tree.ranks_below(self.switch)),
            0 if parent is None else _number(self.addressing.ip(parent)),
            self._own,
            self.group,
            self.allocation.first,
            self.allocation.slots,
        )


def _routes(
    switch: str, fabric: Fabric, addressing: Addressing, ways: Mapping[str, str], seed: int
) -> list[TableEntry]:
    """A route for each prefix; equal sets of next hops share their entries.

    ``ways`` gives nodes a next hop of their own.
    """
    entries: list[TableEntry] = []
    first_of: dict[tuple[str, ...], int] = {}
    known = 0
    routes = addressing.routes(switch) | {f"{addressing.ip(node)}/32": node for node in ways}
    for prefix, destination in routes.items():
        hops = fabric.next_hops(switch, destination)
        if prefix.endswith("/32") and destination in ways:
            hops = (ways[destination],)
        if hops not in first_of:
            first_of[hops] = known
            for hop in hops:
                entries.append(
                    TableEntry(
                        "InaIngress.forwarding.next_hops",
                        (Exact(known),),
                        "InaIngress.forwarding.forward",
                        (
                            addressing.port(switch, hop),
                            addressing.mac(switch),
                            addressing.mac(hop),
                        ),
                    )
                )
                known += 1
        network = ipaddress.ip_network(prefix)
        entries.append(
            TableEntry(
                "InaIngress.forwarding.routes",
                (Lpm(int(network.network_address), network.prefixlen),),
                "InaIngress.forwarding.route",
                (first_of[hops], len(hops), zlib.crc32(f"{seed}/{switch}".encode()) | 1),
            )
        )
    return entries


def _number(ip: str) -> int:
    return int(ipaddress.ip_address(ip))
