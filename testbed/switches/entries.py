"""An INA switch's configuration, derived from the fabric and the jobs' trees.

No system writes table entries itself. Table and action names are those of ``p4/ina.p4``.
"""

from __future__ import annotations

import ipaddress
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from testbed.protocols import protocol_of
from testbed.protocols.allocation import Allocation
from testbed.protocols.part import Part
from testbed.protocols.tables import Exact, Lpm, TableEntry
from testbed.switches.control import Control, Replica
from testbed.topology.addressing import Addressing
from testbed.topology.fabric import Fabric
from testbed.topology.framing import framing


@dataclass(frozen=True)
class SwitchEntries:
    """Table entries and multicast groups of one switch.

    ``long_queue``: queue length in packets from which a port marks packets (ECN); 0: never.
    """

    entries: tuple[TableEntry, ...]
    groups: Mapping[int, tuple[Replica, ...]]
    long_queue: int = 0

    def install(self, control: Control) -> None:
        """Configure the switch. ControlError if it refuses."""
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
    # A sum takes the tree's own path to the parent, not the one that ECMP would choose.
    ways = {
        parent: each.tree.hop(switch, fabric.next_hops(switch, parent))
        for each in joined
        if (parent := each.tree.parent.get(switch)) is not None
    }
    entries: list[TableEntry] = []
    groups: dict[int, tuple[Replica, ...]] = {}
    rid = connections = 0
    for group, each in enumerate(joined, start=1):  # group 0 means no multicast
        part, protocol = Part(switch, addressing, each, group), protocol_of(each.tree)
        entries.append(protocol.join(part))
        replicas = []
        for child in each.tree.children(switch):
            rid += 1
            hop = each.tree.hop(child, fabric.next_hops(switch, child))
            replicas.append(Replica(addressing.port(switch, hop), rid))
            entries.append(_copy(part, child, hop, rid))
            if (connection := protocol.connection(part, child, connections)) is not None:
                entries.append(connection)
                connections += 1
        groups[group] = tuple(replicas)
    # Routes come last: packets on hosts' connections must not pass unsummed, even while a
    # restarted switch is being configured.
    entries += _routes(switch, fabric, addressing, ways, seed)
    # A window fills half of a queue at most; a longer queue has traffic of others, too.
    marks = any(protocol_of(each.tree).congestion.marks for each in joined)
    queue = min(fabric.link(switch, neighbour).queue for neighbour in fabric.neighbours(switch))
    long_queue = 3 * queue // (4 * framing(fabric).frame) if marks else 0
    return SwitchEntries(tuple(entries), groups, long_queue)


def _copy(part: Part, child: str, hop: str, rid: int) -> TableEntry:
    """The entry that addresses the copy for ``child``, which leaves by ``hop``."""
    action, params = protocol_of(part.tree).copy(part, child)
    macs = (part.addressing.mac(part.switch), part.addressing.mac(hop))
    table = "InaEgress.replication"
    return TableEntry(f"{table}.replicas", (Exact(rid),), f"{table}.{action}", (*params, *macs))


def _routes(
    switch: str, fabric: Fabric, addressing: Addressing, ways: Mapping[str, str], seed: int
) -> list[TableEntry]:
    """A route for each prefix; equal sets of next hops share their entries.

    ``ways`` gives single nodes their own next hop.
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
