"""What an INA switch must be told, derived from the fabric and the jobs' trees.

No system writes table entries by hand. Table and action names are those of ``p4/ina.p4``.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass

from testbed.dataplane.control import Control, Exact, Lpm, Replica, TableEntry
from testbed.plan.trees import Tree
from testbed.topology.addressing import Addressing
from testbed.topology.fabric import Fabric


@dataclass(frozen=True)
class SwitchEntries:
    """Table entries and multicast groups of one switch."""

    entries: tuple[TableEntry, ...]
    groups: Mapping[int, tuple[Replica, ...]]

    def install(self, control: Control) -> None:
        """Tell the switch. ControlError if it refuses."""
        for group, replicas in self.groups.items():
            control.multicast_group(group, replicas)
        for entry in self.entries:
            control.insert(entry)


def derive(
    switch: str, fabric: Fabric, addressing: Addressing, jobs: Mapping[int, Tree]
) -> SwitchEntries:
    """Entries of ``switch``: its routes, and its part in each job's tree."""
    # A sum takes the tree's own way to the parent, and not the one that ECMP would draw.
    ways = {
        tree.parent[switch]: tree.hop(switch, fabric.next_hops(switch, tree.parent[switch]))
        for tree in jobs.values()
        if switch in tree.switches
    }
    entries = _routes(switch, fabric, addressing, ways)
    groups: dict[int, tuple[Replica, ...]] = {}
    rid = 0
    for job, tree in jobs.items():
        if switch not in tree.switches:
            continue
        group = job + 1  # group 0 means no multicast
        replicas = []
        for child in tree.children(switch):
            rid += 1
            hop = tree.hop(child, fabric.next_hops(switch, child))
            replicas.append(Replica(addressing.port(switch, hop), rid))
            entries.append(
                TableEntry(
                    "InaEgress.replicas",
                    (Exact(rid),),
                    "InaEgress.address",
                    (_number(addressing.ip(child)), addressing.mac(switch), addressing.mac(hop)),
                )
            )
        groups[group] = tuple(replicas)
        members = sum(1 << rank for rank in tree.ranks_below(switch))
        own = _number(addressing.ip(switch))
        parent = _number(addressing.ip(tree.parent[switch]))
        entries.append(
            TableEntry(
                "InaIngress.jobs",
                (Exact(own), Exact(job)),
                "InaIngress.aggregate",
                (members, parent, own, group),
            )
        )
    return SwitchEntries(tuple(entries), groups)


def _routes(
    switch: str, fabric: Fabric, addressing: Addressing, ways: Mapping[str, str]
) -> list[TableEntry]:
    """A route per host below and per rack beyond; equal sets of next hops share their entries.

    ``ways`` gives nodes beyond the rack a next hop of their own.
    """
    entries: list[TableEntry] = []
    first_of: dict[tuple[str, ...], int] = {}
    known = 0
    destinations = [(host, f"{addressing.ip(host)}/32") for host in fabric.rack_hosts(switch)]
    destinations += [(tor, addressing.prefix(tor)) for tor in fabric.tors if tor != switch]
    own = set(fabric.rack_hosts(switch))
    destinations += [(node, f"{addressing.ip(node)}/32") for node in ways if node not in own]
    for destination, prefix in destinations:
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
                (first_of[hops], len(hops)),
            )
        )
    return entries


def _number(ip: str) -> int:
    return int(ipaddress.ip_address(ip))
