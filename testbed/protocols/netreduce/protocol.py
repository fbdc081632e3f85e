"""NetReduce (Liu et al., ASPLOS 2023): the behaviour of its switches and hosts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from testbed import wire
from testbed.plan.program import SwitchAllReduce
from testbed.protocols.part import Part
from testbed.protocols.protocol import TreeProtocol
from testbed.protocols.roles import Neighbours, Place, Role
from testbed.protocols.tables import Exact, TableEntry

PACKETS = 170
"""The packets of a message in the paper."""


class NetReduce(TreeProtocol):
    """Each host has a connection to the next on a ring; switches know connections by number."""

    def window(self, options: Mapping[str, Any], fair: int) -> tuple[int, int]:
        """Whole messages. Unless their size is asked for, they have fewer packets than in the paper
        if the queues allow no more."""
        messages = int(options["window"])
        message = options.get("message") or max(1, min(PACKETS, fair // messages))
        return messages * message, message

    def role(self, place: Place) -> Role | Neighbours:
        addresses, hosts, tree = place.addresses, place.plan.hosts, place.tree
        order = sorted(tree.rank_of.values())
        before = order[order.index(place.rank) - 1]
        after = order[(order.index(place.rank) + 1) % len(order)]
        # Packets whose route does not pass their summing switch are sent to that switch instead.
        passes = tree.parent[place.host] == place.fabric.tor_of(place.host)
        return Neighbours(
            place.allocation.number,
            self,
            place.rank,
            to=addresses[hosts[after]] if passes else place.parent,
            after=addresses[hosts[after]],
            before=addresses[hosts[before]],
            rank_before=before,
            message=place.window.message,
            window=place.window.fragments // place.window.message,
        )

    def connection(self, part: Part, child: str, index: int) -> TableEntry | None:
        if child not in part.tree.rank_of:
            return None
        number, rank = part.allocation.number, part.tree.rank_of[child]
        return TableEntry(
            "InaIngress.connections",
            (Exact(part.ip(child)), Exact(wire.connection(number, rank))),
            "InaIngress.join_connection",
            (index, part.tree.bits(child), number, *part.parameters),
        )

    def copy(self, part: Part, child: str) -> tuple[str, tuple[int, ...]]:
        """A member's copy belongs to the connection on which the member receives."""
        if child not in part.tree.rank_of:
            return super().copy(part, child)
        sender = part.tree.predecessor(child)
        connection = wire.connection(part.allocation.number, part.tree.rank_of[sender])
        return "connect", (part.ip(child), part.ip(sender), connection)


PROTOCOL = NetReduce(
    name="netreduce",
    citation="Liu et al., In-Network Aggregation with Transport Transparency for Distributed "
    "Training, ASPLOS 2023; arXiv 2009.09736",
    published=(
        "Hosts keep their reliable connections (RoCEv2), each to the next host of a ring.",
        "Only a message's first packet carries the INA header; switches recognise the others by "
        "connection and sequence number.",
        "Each packet goes on to its destination with the sum in place of its values.",
        "The window is a number of messages.",
    ),
    reading=(
        "We did not have the paper's text, only abstracts and quotations.",
        "Connections of a job number their packets alike. Memory is twice the window, for the "
        "same reason that SwitchML has two versions.",
        "Sums are marked in a reserved field of RoCE's header, and receivers ignore values without "
        "the mark: a switch that lost its tables forwards contributions. A host that has the sum "
        "already retransmits the sum, marked, and switches let it pass.",
        "A packet that was retransmitted in vain goes again as a message of its own, with an INA "
        "header: the switch may have lost what it knew of the message.",
        "One acknowledgement answers up to 16 packets in order, and each message's last packet; "
        "RoCE leaves that to the network card.",
    ),
    loss="Hosts retransmit only the packets asked for (selective repeat, not go-back-N). A "
    "repeated packet of an answered fragment goes on to its destination with the sum.",
    operations=(SwitchAllReduce,),
    port=wire.ROCE_PORT,
    number=4,
    control="netreduce.p4",
    switch_may_be_root=True,
    survives_restart=True,
)
