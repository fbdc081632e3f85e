"""The reference as a switch: frames in, frames out, configured with a fabric's trees.

A packet to the switch that belongs to one of its trees is aggregated by the protocol's reference
model. All others are routed, always on one path: the reference has no ECMP.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from testbed import wire
from testbed.plan.trees import Tree
from testbed.protocols import protocol_of
from testbed.protocols.allocation import Allocation
from testbed.protocols.events import Event
from testbed.protocols.reference import (
    CHILDREN,
    DATA,
    RESULT,
    Aggregation,
    Child,
    Ina,
    Opening,
    Part,
    older,
)
from testbed.switches.frames import (
    BTH,
    FIRST,
    IS_SUM,
    ONLY,
    TIME_TO_LIVE,
    VERSION_AND_LENGTH,
    Packet,
    number,
    parse,
    set_checksum,
    set_number,
)
from testbed.topology.addressing import Addressing
from testbed.topology.fabric import Fabric


def has_connections(tree: Tree) -> bool:
    """Whether hosts send on connections (RoCEv2), as in NetReduce."""
    return tree.protocol.port == wire.ROCE_PORT


@dataclass(frozen=True)
class Hop:
    port: int
    mac: int


@dataclass(frozen=True)
class Message:
    """NetReduce: the data in a message's first packet, which applies to all its packets."""

    psn: int
    sequence: int
    slot: int
    count: int


class ReferenceSwitch:
    """The switch ``name``. Like the P4 program's counters, ``events`` counts packets by job and
    event."""

    def __init__(
        self,
        name: str,
        fabric: Fabric,
        allocations: Sequence[Allocation],
        lanes: int = wire.VALUES,
        saturate: bool = False,
    ) -> None:
        self._name, self._fabric, self._addressing = name, fabric, Addressing(fabric)
        self._lanes = lanes
        self._aggregation = Aggregation(lanes, saturate)
        self._messages: dict[tuple[int, int], Message] = {}  # by connection and place
        joined = [each for each in allocations if name in each.tree.switches]
        self._parts = {each.number: self._part(each) for each in joined}
        self._connects = {each.number: has_connections(each.tree) for each in joined}
        self._senders = {
            (self._ip(child), wire.connection(each.number, rank)): (
                each.number,
                each.tree.bits(child),
            )
            for each in joined
            if has_connections(each.tree)
            for child in each.tree.children(name)
            if (rank := each.tree.rank_of.get(child)) is not None
        }
        ways = self._addressing.routes(name)
        ways |= {f"{self._addressing.ip(at)}/32": at for at in fabric.nodes if at != name}
        self._routes = [(ipaddress.IPv4Network(net), self._hop(to)) for net, to in ways.items()]
        self.events: Counter[tuple[int, Event]] = Counter()

    def process(self, data: bytes) -> list[tuple[int, bytes]]:
        """The frames that leave, by port, when the frame ``data`` arrives."""
        packet = parse(data, self._lanes)
        if packet is None:
            return []
        tree = self._addressed(packet) if packet.bth is None else self._on_connection(packet)
        if tree is None:
            return self._forward(packet)
        part, connects = self._parts[tree], self._connects[tree]
        content = _content(packet)
        if packet.bth is not None and not self._recognise(packet, content):
            self.events[part.job, Event.REFUSED] += 1
            return []
        event = self._aggregation.handle(part, content)
        self.events[part.job, event] += 1
        if content.to is None:
            return []
        packet.link["ttl"] = TIME_TO_LIVE
        if content.to == CHILDREN:
            return [self._copy(packet, content, child, connects) for child in part.children]
        packet.link["src"], packet.link["dst"] = content.source, content.to
        return self._forward(_with_content(packet, content, connects))

    # The packet's tree

    def _addressed(self, packet: Packet) -> int | None:
        """The tree's number, if the packet is addressed to this switch."""
        if packet.ina is None or packet.link["dst"][0] != self._ip(self._name):
            return None
        tree = int(packet.ina["tree"][0])
        return tree if tree in self._parts else None

    def _on_connection(self, packet: Packet) -> int | None:
        """The tree's number, if the packet is a rank's contribution on one of its connections."""
        assert packet.bth is not None
        sender = int(packet.link["src"][0]), number(packet.bth["connection"])
        if sender not in self._senders or packet.values is None:
            return None
        return None if packet.bth["reserved"][0] & IS_SUM else self._senders[sender][0]

    def _recognise(self, packet: Packet, content: Ina) -> bool:
        """Complete a packet's INA header from the first packet of its message; False if that is
        unknown."""
        assert packet.bth is not None
        connection, psn = number(packet.bth["connection"]), number(packet.bth["sequence"])
        content.tree, content.bitmap = self._senders[content.source, connection]
        content.kind, content.flags = DATA, 0
        if packet.ina is None:
            content.next_slot = 0
            for place in range(wire.LIVE_MESSAGES):
                message = self._messages.get((connection, place))
                if message is not None and (psn - message.psn) % (1 << 24) < message.count:
                    break
            else:
                return False
        else:
            key = connection, (content.next_slot >> 24) % wire.LIVE_MESSAGES
            count = content.next_slot % (1 << 24)
            message = Message(psn, content.sequence, content.slot, count)
            before = self._messages.get(key)
            if before is None or not before.count or not older(message.sequence, before.sequence):
                self._messages[key] = message
            if not count:
                return False
        offset = (psn - message.psn) % (1 << 24)
        content.sequence = (message.sequence + offset) % (1 << 32)
        content.slot = (message.slot + offset) % (1 << 32)
        return True

    # Forwarding

    def _forward(self, packet: Packet) -> list[tuple[int, bytes]]:
        link = packet.link
        destination = ipaddress.ip_address(int(link["dst"][0]))
        fitting = [(net.prefixlen, hop) for net, hop in self._routes if destination in net]
        if not fitting or link["ttl"][0] <= 1 or link["version_ihl"][0] != VERSION_AND_LENGTH:
            return []
        link["ttl"] -= 1
        return [self._leave(packet, max(fitting, key=lambda pair: pair[0])[1])]

    def _copy(
        self, packet: Packet, content: Ina, child: Child, connects: bool
    ) -> tuple[int, bytes]:
        own = Ina(**vars(content))
        own.on = content.on if child.connection is not None else None
        copy = _with_content(packet, own, connects)
        copy.link["dst"] = child.address
        copy.link["src"] = content.source if child.connection is None else child.peer
        if child.connection is not None:
            assert copy.bth is not None
            set_number(copy.bth["connection"], child.connection)
        return self._leave(copy, self._hop_to_address(child.address))

    def _leave(self, packet: Packet, hop: Hop) -> tuple[int, bytes]:
        packet.link["from_mac"] = np.void(self._addressing.mac(self._name).to_bytes(6, "big"))
        packet.link["to_mac"] = np.void(hop.mac.to_bytes(6, "big"))
        set_checksum(packet.link)
        return hop.port, bytes(packet)

    # Configuration

    def _ip(self, node: str) -> int:
        return self._addressing.ip_number(node)

    def _hop(self, node: str) -> Hop:
        (hop,) = self._fabric.next_hops(self._name, node)
        return Hop(self._addressing.port(self._name, hop), self._addressing.mac(hop))

    def _hop_to_address(self, address: int) -> Hop:
        alone = ipaddress.ip_network(address)
        return next(hop for net, hop in self._routes if net == alone)

    def _part(self, allocation: Allocation) -> Part:
        tree = allocation.tree
        parent = tree.parent.get(self._name)
        return Part(
            job=allocation.job,
            model=protocol_of(tree).reference,
            own=self._ip(self._name),
            members=sum(map(tree.bits, tree.children(self._name))),
            parent=None if parent is None else self._ip(parent),
            children=tuple(self._child(allocation, node) for node in tree.children(self._name)),
            first=allocation.first,
            slots=allocation.slots,
            watch=protocol_of(tree).watches_overflow,
            total=(tree.bits(self._name), tree.number(self._name)) if parent else None,
            number=tree.number(tree.children(self._name)[0]) if tree.protocol.shares_slots else 0,
        )

    def _child(self, allocation: Allocation, node: str) -> Child:
        tree = allocation.tree
        if not has_connections(tree) or node not in tree.rank_of:
            return Child(self._ip(node))
        peer = tree.predecessor(node)
        return Child(
            self._ip(node), self._ip(peer), wire.connection(allocation.number, tree.rank_of[peer])
        )


def _content(packet: Packet) -> Ina:
    fields = {name: 0 for name, _ in wire.FIELDS}
    if packet.ina is not None:
        fields = {name: int(packet.ina[name][0]) for name in fields}
    on = None
    if packet.bth is not None:
        opcode, flags, partition = (int(packet.bth[n][0]) for n in ("opcode", "flags", "partition"))
        on = Opening(opcode, flags, partition, number(packet.bth["sequence"]))
    source, to = int(packet.link["src"][0]), int(packet.link["dst"][0])
    return Ina(**fields, values=packet.values, source=source, to=to, on=on)


def _with_content(packet: Packet, content: Ina, connects: bool) -> Packet:
    """A packet that carries ``content``, on a connection if ``connects``."""
    assert packet.udp is not None
    udp = packet.udp.copy()
    made = Packet(packet.link.copy(), udp, rest=packet.rest)
    udp["checksum"] = 0
    udp["sport"] = udp["dport"] ^ content.tree
    made.ina = np.zeros(1, wire.HEADER)
    for name, _ in wire.FIELDS:
        made.ina[name] = getattr(content, name)
    if content.values is not None:
        made.values = content.values.astype(">i4")
    if not connects:
        return made
    if content.on is not None:
        made.bth = np.zeros(1, BTH) if packet.bth is None else packet.bth.copy()
        made.bth["opcode"], made.bth["flags"] = content.on.opcode, content.on.flags
        made.bth["partition"] = content.on.partition
        set_number(made.bth["sequence"], content.on.psn)
        if content.kind == RESULT:
            made.bth["reserved"] = IS_SUM
        if content.to == CHILDREN:
            made.bth["acknowledge"] = 0
        if content.on.opcode not in (FIRST, ONLY):
            made.ina = None
    udp["dport"] = wire.PORT if made.bth is None else wire.ROCE_PORT
    size = len(bytes(made)) - made.link.nbytes - len(made.rest)
    udp["length"], made.link["length"] = size, size + 20
    return made
