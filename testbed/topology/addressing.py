"""Addresses of a fabric's nodes, a function of the fabric alone.

Host j of rack r is 10.r.0.(j+1), its ToR 10.r.255.254; the switches above (spines, or aggregation
and core) are 10.255.0.(i+1). A node has one MAC for all its interfaces, so that the MAC of a next
hop depends only on the node.
"""

from __future__ import annotations

from ipaddress import IPv4Address

from testbed.topology.fabric import Fabric, Kind

LONGEST_INTERFACE = 15  # IFNAMSIZ, less the terminating zero
MOST_RACKS = 254
MOST_IN_RACK = 254


class Addressing:
    """IP and MAC addresses, port numbers and interface names.

    Raises ValueError if the fabric has too many racks or hosts for the scheme, or names that are
    too long for an interface.
    """

    def __init__(self, fabric: Fabric) -> None:
        crowded = [tor for tor in fabric.tors if len(fabric.rack_hosts(tor)) > MOST_IN_RACK]
        self._above = [each for each in fabric.switches if fabric.nodes[each].kind is not Kind.TOR]
        if crowded:
            raise ValueError(f"{crowded[0]}: more than {MOST_IN_RACK} hosts in a rack")
        if len(fabric.tors) > MOST_RACKS or len(self._above) > MOST_IN_RACK:
            raise ValueError(f"more than {MOST_RACKS} racks, or switches above them")
        self._fabric = fabric
        self._ip: dict[str, IPv4Address] = {}
        self._mac = {name: 0x02_00_00_00_00_01 + index for index, name in enumerate(fabric.nodes)}
        for index, switch in enumerate(self._above):
            self._ip[switch] = IPv4Address(f"10.255.0.{index + 1}")
        for tor in fabric.tors:
            self._ip[tor] = IPv4Address(f"10.{fabric.nodes[tor].rack}.255.254")
            for index, host in enumerate(fabric.rack_hosts(tor)):
                self._ip[host] = IPv4Address(f"10.{fabric.nodes[tor].rack}.0.{index + 1}")
        for link in fabric.links:
            if len(name := self.interface(link.a, link.b)) > LONGEST_INTERFACE:
                raise ValueError(
                    f"{name}: too long for an interface's name (at most {LONGEST_INTERFACE})"
                )

    def ip(self, node: str) -> str:
        return str(self._ip[node])

    def ip_number(self, node: str) -> int:
        """The IPv4 address as a number, its first byte the highest."""
        return int(self._ip[node])

    def mac(self, node: str) -> int:
        return self._mac[node]

    def mac_text(self, node: str) -> str:
        return ":".join(f"{byte:02x}" for byte in self._mac[node].to_bytes(6, "big"))

    def prefix(self, tor: str) -> str:
        """The prefix of a whole rack, its ToR included."""
        return f"10.{self._fabric.nodes[tor].rack}.0.0/16"

    def routes(self, switch: str) -> dict[str, str]:
        """The prefixes that ``switch`` must know, each with the node to which it leads.

        These are the hosts of its own rack, other racks as a whole, and switches above the ToRs.
        """
        near = [*self._fabric.rack_hosts(switch), *self._above]
        return {f"{self._ip[node]}/32": node for node in near if node != switch} | {
            self.prefix(tor): tor for tor in self._fabric.tors if tor != switch
        }

    def port(self, switch: str, neighbour: str) -> int:
        """The port of ``switch`` that leads to ``neighbour``, from 1."""
        return self._fabric.neighbours(switch).index(neighbour) + 1

    @staticmethod
    def interface(node: str, neighbour: str) -> str:
        """Name of ``node``'s interface towards ``neighbour``."""
        return f"{node}-{neighbour}"
