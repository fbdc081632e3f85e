"""An INA switch's configuration, derived from the fabric and the jobs' trees.

No system writes table entries itself. Table and action names are those of ``p4/ina.p4``.
"""

from __future__ import annotations

import ipaddress
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import methodcaller

from testbed.plan.trees import Tree
from testbed.protocols import protocol_of
from testbed.protocols.allocation import Allocation
from testbed.protocols.part import Part
from testbed.protocols.tables import Exact, Lpm, Match, TableEntry
from testbed.switches.control import Control, Replica
from testbed.topology.addressing import Addressing
from testbed.topology.fabric import Fabric
from testbed.topology.framing import framing
from testbed.topology.paths import Flow, Routes, diverted

_DEEPEST = (1 << 19) - 1
"""The longest queue that BMv2's 19 bits hold, in packets."""


@dataclass(frozen=True)
class SwitchEntries:
    """Table entries and multicast groups of one switch.

    ``long_queue`` is the queue length, in packets, from which on a port marks packets (ECN); 0:
    never.
    """

    entries: tuple[TableEntry, ...]
    groups: Mapping[int, tuple[Replica, ...]]
    long_queue: int = 0

    def install(self, control: Control) -> None:
        """Configure the switch. Raises ControlError if it refuses."""
        for step in self.steps():
            step(control)

    def steps(self) -> list[Callable[[Control], None]]:
        """The same, one request at a time."""
        groups = [
            methodcaller("multicast_group", group, replicas)
            for group, replicas in self.groups.items()
        ]
        entries = [methodcaller("insert", entry) for entry in self.entries]
        return [
            *groups,
            *entries,
            methodcaller("write_register", "InaEgress.ecn_depth", 0, self.long_queue),
        ]


def derive(
    switch: str,
    fabric: Fabric,
    addressing: Addressing,
    allocations: Sequence[Allocation],
    seed: int = 0,
    routes: Routes | None = None,
) -> SwitchEntries:
    """Entries of ``switch``: its part in each tree, its ``routes`` and, for all other flows, ECMP
    whose hash uses ``seed``.
    """
    joined = [each for each in allocations if switch in each.tree.switches]
    routed = diverted(fabric, routes or {}, switch)

    def hop(tree: Tree, child: str, to: str) -> str:
        """The next hop of this switch's own packets: the tree's choice unless they have a route."""
        hops = fabric.next_hops(switch, to)
        return routed.get((switch, to)) or tree.hop(child, hops, to == child)

    # A sum takes the tree's own path to the parent, not one that ECMP chooses.
    sums = [
        (each.number, parent, hop(each.tree, switch, parent))
        for each in joined
        if (parent := each.tree.parent.get(switch)) is not None
    ]
    entries: list[TableEntry] = []
    groups: dict[int, tuple[Replica, ...]] = {}
    rid = connections = 0
    for group, each in enumerate(joined, start=1):  # group 0 means no multicast
        part, protocol = Part(switch, addressing, each, group), protocol_of(each.tree)
        entries.append(protocol.join(part))
        replicas = []
        for child in each.tree.children(switch):
            rid += 1
            there = hop(each.tree, child, child)
            replicas.append(Replica(addressing.port(switch, there), rid))
            entries.append(_copy(part, child, there, rid))
            if (connection := protocol.connection(part, child, connections)) is not None:
                entries.append(connection)
                connections += 1
        groups[group] = tuple(replicas)
    # Routes come last: packets on hosts' connections must not pass without being summed, even while
    # a restarted switch is being configured.
    entries += _forwarding(switch, fabric, addressing, routed, sums, seed)
    # A window fills at most half of a queue; a longer queue also has other traffic.
    marks = any(protocol_of(each.tree).congestion.marks for each in joined)
    queue = min(fabric.link(switch, neighbour).queue for neighbour in fabric.neighbours(switch))
    long_queue = min(3 * queue // (4 * framing(fabric).frame), _DEEPEST) if marks else 0
    return SwitchEntries(tuple(entries), groups, long_queue)


def _copy(part: Part, child: str, hop: str, rid: int) -> TableEntry:
    """The entry that addresses the copy for ``child``, which leaves by ``hop``."""
    action, params = protocol_of(part.tree).copy(part, child)
    macs = (part.addressing.mac(part.switch), part.addressing.mac(hop))
    table = "InaEgress.replication"
    return TableEntry(f"{table}.replicas", (Exact(rid),), f"{table}.{action}", (*params, *macs))


def _forwarding(
    switch: str,
    fabric: Fabric,
    addressing: Addressing,
    flows: Mapping[Flow, str],
    sums: Sequence[tuple[int, str, str]],
    seed: int,
) -> list[TableEntry]:
    """A route for each prefix, and one for each flow and each tree's sums with a next hop of their
    own. ``sums`` has each tree's number, parent and next hop.

    Equal sets of next hops share their entries.
    """
    entries: list[TableEntry] = []
    first_of: dict[tuple[str, ...], int] = {}
    known = 0

    def group(hops: tuple[str, ...]) -> int:
        """The first entry of a set of next hops."""
        nonlocal known
        if hops not in first_of:
            first_of[hops] = known
            for hop in hops:
                macs = (addressing.mac(switch), addressing.mac(hop))
                entries.append(
                    _forward(
                        "next_hops", (Exact(known),), "forward", addressing.port(switch, hop), *macs
                    )
                )
                known += 1
        return first_of[hops]

    multiplier = zlib.crc32(f"{seed}/{switch}".encode()) | 1
    for prefix, destination in addressing.routes(switch).items():
        hops = fabric.next_hops(switch, destination)
        network = ipaddress.ip_network(prefix)
        match = Lpm(int(network.network_address), network.prefixlen)
        entries.append(_forward("routes", (match,), "route", group(hops), len(hops), multiplier))
    for flow, hop in flows.items():
        ends = tuple(Exact(addressing.ip_number(end)) for end in flow)
        entries.append(_forward("flows", ends, "via", group((hop,))))
    for tree, parent, hop in sums:
        key = (Exact(tree), Exact(addressing.ip_number(parent)))
        entries.append(_forward("sums", key, "via", group((hop,))))
    return entries


def _forward(table: str, match: tuple[Match, ...], action: str, *params: int) -> TableEntry:
    control = "InaIngress.forwarding"
    return TableEntry(f"{control}.{table}", match, f"{control}.{action}", params)
