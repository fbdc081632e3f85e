"""Random and hostile traffic for the scene's switch, from one seed or from hypothesis."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from itertools import product
from random import Random

import numpy as np
from ina_scene import ADDRESSING, ALLOCATIONS, FABRIC, MARKER, PORTS, PROTOCOLS, RANKS, SWITCH

from testbed import wire
from testbed.plan.program import Multicast
from testbed.protocols import TreeProtocol, protocol_of
from testbed.protocols.allocation import Allocation
from testbed.switches.frames import (
    BTH,
    FIRST,
    IS_SUM,
    LAST,
    LINK,
    MIDDLE,
    ONLY,
    UDP,
    Packet,
    set_checksum,
    set_number,
)
from testbed.switches.reference import has_connections

Arrival = tuple[int, bytes]
"""Port and frame."""

Due = tuple[int, str]
"""A missing contribution to a fragment or message: the number of its packet, and the sender."""

EXTREMES = np.array([-(2**31), 2**31 - 1, -1, 0, 1, 2**30], np.int64)
MESSAGE = 2  # packets of NetReduce's messages
STARTS = (0, 7, 0xFFFF_FFFC, 0x7FFF_FFFD, 0x00FF_FFFD)
LONGEST = 9000


def values(seed: int, lanes: int = wire.VALUES) -> np.ndarray:
    """Random int32, or mostly values at the limits; the same on every machine."""
    drawn = hashlib.shake_128(seed.to_bytes(8, "big")).digest(4 * lanes)
    found = np.frombuffer(drawn, ">i4")
    return EXTREMES[found % len(EXTREMES)].astype(">i4") if seed % 2 else found


@dataclass
class Traffic:
    """Draws one arrival after another, for trees of the protocols ``styles``. A packet has
    ``lanes`` values."""

    random: Random
    styles: Sequence[TreeProtocol] = PROTOCOLS
    allocations: Sequence[Allocation] = ALLOCATIONS
    lanes: int = wire.VALUES
    past: list[Arrival] = field(default_factory=list)

    def __post_init__(self) -> None:
        mine = (each for each in self.allocations if each is not MARKER)
        self._trees = [each for each in mine if each.tree.protocol in self.styles]
        self._base = {each.number: self.random.choice(STARTS) for each in self._trees}
        self._sent: dict[int, set[Due]] = {each.number: set() for each in self._trees}

    def arrivals(self, count: int) -> Iterator[Arrival]:
        for _ in range(count):
            arrival = self._arrival()
            self.past.append(arrival)
            yield arrival

    def _arrival(self) -> Arrival:
        fate = self.random.randrange(20)
        if fate == 0 or not self.past:
            return self._plain()
        if fate <= 3:  # sent twice, or overtaken
            return self.random.choice(self.past[-30:])
        if fate == 4:
            return self._mangled(*self.random.choice(self.past[-30:]))
        allocation = self.random.choice(self._trees)
        if has_connections(allocation.tree) and self.random.randrange(4):
            return self._on_connection(allocation)
        return self._fragment(allocation)

    def _chance(self, one_in: int) -> bool:
        return self.random.randrange(one_in) == 0

    def _due(self, number: int, wanted: Iterable[Due]) -> Due | None:
        """A missing contribution to the tree's current fragment or message. If none is missing,
        returns None, and the next call is for the next fragment or message."""
        missing = sorted(set(wanted) - self._sent[number])
        if not missing:
            self._sent[number].clear()
            return None
        near = [each for each in missing if each[0] == missing[0][0] or self._chance(6)]
        due = self.random.choice(near)
        self._sent[number].add(due)
        return due

    def _sequence(self, number: int) -> int:
        """The tree's current sequence number; sometimes an older or an unrelated one."""
        if self._chance(100):
            return self.random.getrandbits(32)
        behind = self.random.choice((1, 2, 3, 4, 40)) if self._chance(6) else 0
        return (self._base[number] - behind) % (1 << 32)

    def _slot(self, allocation: Allocation, sequence: int) -> int:
        if self._chance(16):
            return self.random.choice((0, 3, allocation.slots, 4095, self.random.getrandbits(32)))
        if allocation.tree.protocol.shares_slots:  # a hash
            return (sequence + 5 * allocation.number) % allocation.slots
        return sequence % allocation.slots

    def _fragment(self, allocation: Allocation) -> Arrival:
        """A packet with the INA header, from a child or from the parent."""
        random, tree = self.random, allocation.tree
        ina = np.zeros(1, wire.HEADER)
        due = self._due(allocation.number, ((0, child) for child in tree.children(SWITCH)))
        sequence = self._sequence(allocation.number)
        kind = wire.KIND_DATA
        if (Multicast in protocol_of(tree).operations and sequence % 3 == 0) or self._chance(20):
            kind = wire.KIND_RECEIPT
        sender = due[1] if due else random.choice(tree.children(SWITCH))
        bitmap = tree.bits(sender)
        number = tree.number(sender)
        if due is None:
            self._base[allocation.number] += 1
        if (due is None and random.randrange(4)) or self._chance(10):
            sender = tree.parent.get(SWITCH, sender)
            kind = random.choice((wire.KIND_RESULT, wire.KIND_RESULT, wire.KIND_ACK))
        if self._chance(15):
            bitmap = random.choice((0, bitmap | 1 << 40, random.getrandbits(64), bitmap & -bitmap))
        if self._chance(40):
            kind = random.getrandbits(8)
        ina["kind"], ina["tree"], ina["bitmap"] = kind, allocation.number, bitmap
        if self._chance(4):
            flags = (1, 1, 1, 2, 4, 8, 16, random.getrandbits(8))
            ina["flags"] = random.choice(flags)
        ina["sequence"], ina["slot"] = sequence, self._slot(allocation, sequence)
        ina["next_slot"] = random.getrandbits(32) if self._chance(4) else number or ina["slot"]
        packet = Packet(*self._headers(sender, ADDRESSING.ip(SWITCH), wire.PORT), None, ina)
        if kind in (wire.KIND_DATA, wire.KIND_RESULT):
            packet.values = values(random.getrandbits(16), self.lanes)
        return self._finished(packet, sender)

    def _on_connection(self, allocation: Allocation) -> Arrival:
        """NetReduce: a packet of a message of ``MESSAGE`` packets."""
        random, tree = self.random, allocation.tree
        number = allocation.number
        senders = [each for each in tree.children(SWITCH) if each in tree.rank_of]
        due = self._due(number, product(range(MESSAGE), senders))
        if due is None:
            self._base[number] += MESSAGE
        offset, sender = due or (0, senders[0])
        first = self._sequence(number) // MESSAGE * MESSAGE
        message = first // MESSAGE
        ring = sorted(tree.rank_of, key=tree.rank_of.__getitem__)
        receiver = ring[(ring.index(sender) + 1) % len(ring)]
        bth = np.zeros(1, BTH)
        bth["opcode"] = FIRST if offset == 0 else LAST
        if self._chance(12):
            bth["opcode"] = random.choice((MIDDLE, ONLY, 0x11, random.getrandbits(8)))
        bth["flags"], bth["partition"] = random.getrandbits(8), 0xFFFF
        bth["reserved"] = IS_SUM if self._chance(15) else 0
        bth["acknowledge"] = random.getrandbits(8)
        set_number(bth["connection"], wire.connection(number, tree.rank_of[sender]))
        set_number(bth["sequence"], (first + offset) % (1 << 24))
        ina = None
        if bth["opcode"][0] in (FIRST, ONLY):
            ina = np.zeros(1, wire.HEADER)
            ina["kind"], ina["tree"] = random.choice(((1, number), (0, 5)))
            ina["sequence"] = first
            ina["slot"] = self._slot(allocation, first)
            count = random.choice((MESSAGE,) * 8 + (0, 1, 0xFFFFFF))
            ina["next_slot"] = (message % wire.LIVE_MESSAGES) << 24 | count
            ina["bitmap"] = tree.bits(sender)
        # Hosts whose ToR does not sum address the switch that does.
        to = SWITCH if self._chance(4) else receiver
        headers = self._headers(sender, ADDRESSING.ip(to), wire.ROCE_PORT)
        packet = Packet(*headers, bth, ina, values(random.getrandbits(16), self.lanes))
        return self._finished(packet, sender)

    def _plain(self) -> Arrival:
        """A packet of another protocol."""
        random = self.random
        sender, receiver = random.choice(sorted(RANKS)), random.choice(sorted(FABRIC.nodes))
        address = random.choice((ADDRESSING.ip(receiver), "10.1.99.9", "192.168.0.1"))
        packet = Packet(*self._headers(sender, address, random.choice((80, 4790, 0xBEE1))))
        packet.link["protocol"] = random.choice((1, 6, 17, 200))
        packet.link["version_ihl"] = random.choice((0x45, 0x45, 0x45, 0x46, 0x65, 0x44))
        packet.link["ttl"] = random.choice((0, 1, 2, 64, 255))
        packet.link["fragment"] = random.choice((0, 0, 0x4000, 0x2000, 0x0007))
        packet.link["type"] = random.choice((0x0800,) * 6 + (0x0806, 0x86DD))
        packet.rest = bytes(random.randrange(60))
        return self._finished(packet, sender)

    def _headers(self, sender: str, to: str, port: int) -> tuple[np.ndarray, np.ndarray]:
        link, udp = headers(ADDRESSING.ip_number(sender), int(IPv4Address(to)))
        link["to_mac"] = np.void(ADDRESSING.mac(SWITCH).to_bytes(6, "big"))
        link["from_mac"] = np.void(ADDRESSING.mac(sender).to_bytes(6, "big"))
        link["tos"] = self.random.choice((0, 2, 3, 0xB8))
        link["ttl"] = self.random.choice((64, 64, 64, 64, 2, 1))
        udp["sport"], udp["dport"], udp["checksum"] = port, port, self.random.getrandbits(16)
        return link, udp

    def _finished(self, packet: Packet, sender: str) -> Arrival:
        size = len(bytes(packet)) - LINK.itemsize
        packet.link["length"], packet.udp["length"] = size + 20, size
        set_checksum(packet.link)
        hop = next(iter(FABRIC.next_hops(SWITCH, sender)), FABRIC.neighbours(SWITCH)[0])
        return ADDRESSING.port(SWITCH, hop), bytes(packet)

    def _mangled(self, port: int, frame: bytes) -> Arrival:
        """A packet that is cut, lengthened, at another port, or changed in some bytes of its
        headers."""
        how = self.random.randrange(4)
        if how == 0:
            return port, frame[: self.random.randrange(14, len(frame) + 1)]
        if how == 1:
            # One that was lengthened before may have no room left.
            return port, (frame + bytes(self.random.choice((1, 40, LONGEST))))[:LONGEST]
        if how == 2:
            return self.random.choice(PORTS), frame
        changed = bytearray(frame)
        for _ in range(self.random.randrange(1, 4)):
            # Ethernet addresses have no effect.
            changed[self.random.randrange(12, min(90, len(frame)))] = self.random.getrandbits(8)
        return port, bytes(changed)


def headers(source: int, to: int) -> tuple[np.ndarray, np.ndarray]:
    """The headers of a UDP packet from one address to another."""
    link, udp = np.zeros(1, LINK), np.zeros(1, UDP)
    link["type"], link["version_ihl"], link["ttl"], link["protocol"] = 0x0800, 0x45, 64, 17
    link["src"], link["dst"] = source, to
    return link, udp


def data_packet(host: str, allocation: Allocation, sequence: int, values: np.ndarray) -> Packet:
    """What a member sends to the switch."""
    link, udp = headers(ADDRESSING.ip_number(host), ADDRESSING.ip_number(SWITCH))
    ina = np.zeros(1, wire.HEADER)
    udp["dport"] = wire.PORT
    ina["kind"], ina["tree"], ina["sequence"] = wire.KIND_DATA, allocation.number, sequence
    ina["slot"] = sequence % allocation.slots
    ina["bitmap"] = allocation.tree.bits(host)
    return Packet(link, udp, ina=ina, values=values.astype(">i4"))
