"""Correct hosts, reduced to the packets that the protocol allows: a member, and a tree's root.

They do not decide when to send: the test does, at the worst moments. The sum of their values shows
which ranks contributed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from random import Random

import numpy as np
from ina_traffic import headers, values

from testbed import wire
from testbed.plan.trees import Tree
from testbed.plan.units import Unit
from testbed.protocols import TreeProtocol
from testbed.protocols.allocation import Allocation
from testbed.protocols.rack.protocol import PROTOCOL as RACK
from testbed.switches.frames import (
    BTH,
    FIRST,
    IS_SUM,
    LAST,
    Packet,
    number,
    set_number,
)
from testbed.topology.addressing import Addressing

WINDOW = 4
MESSAGE = 2
FRAGMENTS = 20
FIRST_SEQUENCE = 0xFFFF_FFFC  # so that it wraps around


def contribution(tree: int, rank: int, sequence: int, style: TreeProtocol) -> np.ndarray:
    drawn = values(tree << 48 | rank << 34 | (sequence % (1 << 32)) << 1)
    # Small enough not to overflow, for protocols that watch for overflow.
    return (drawn // 128).astype(">i4") if style.watches_overflow else drawn


@dataclass
class Host:
    """The role of ``name`` in a tree. ``send`` gives a packet to the network."""

    name: str
    allocation: Allocation
    addressing: Addressing
    send: Callable[[Packet], None]
    multicasts: bool = False  # the tree's operation, with protocol RACK
    done: set[int] = field(default_factory=set)  # fragments, from 0

    @property
    def style(self) -> TreeProtocol:
        return self.allocation.tree.protocol

    @property
    def lowest(self) -> int:
        return next(s for s in range(FRAGMENTS + 1) if s not in self.done)

    def due(self) -> list[int]:
        """Fragments that may be sent now, for the first time or again."""
        slots_free = {*range(WINDOW), *(s + WINDOW for s in self.done)}
        return [s for s in range(self.lowest, FRAGMENTS) if s in slots_free - self.done]

    def finished(self) -> bool:
        return self.lowest == FRAGMENTS

    def speak(self, s: int) -> None:
        """Send fragment ``s``, which is due."""

    def hear(self, packet: Packet) -> None:
        """Process a packet that arrived."""

    def slot(self, s: int) -> int:
        return (FIRST_SEQUENCE + s) % (2 * WINDOW)

    def priority(self, s: int) -> int:
        """The priority of fragment ``s``: 0 if priorities do not count, otherwise one on which all
        members agree."""
        counts = any(self.style.priorities({}, [Unit(0, 1, 0.0)], 1))
        return 1 + (s + 3 * self.allocation.number) % wire.MOST_PRIORITY if counts else 0

    def packet(self, kind: int, s: int, to: str, bitmap: int, **fields: int) -> Packet:
        link, udp = headers(self.addressing.ip_number(self.name), self.addressing.ip_number(to))
        ina = np.zeros(1, wire.HEADER)
        udp["sport"] = udp["dport"] = wire.PORT
        ina["kind"], ina["tree"], ina["bitmap"] = kind, self.allocation.number, bitmap
        ina["sequence"] = (FIRST_SEQUENCE + s) % (1 << 32)
        ina["slot"] = ina["next_slot"] = self.slot(s)
        if self.name in self.allocation.tree.parent and self.allocation.tree.is_wide:
            ina["next_slot"] = self.allocation.tree.number(self.name)
        for name, value in fields.items():
            ina[name] = value
        return Packet(link, udp, ina=ina)

    def place(self, packet: Packet) -> int | None:
        """The number of a packet's fragment, from 0; None for a packet of another tree."""
        if packet.ina is None or packet.ina["tree"][0] != self.allocation.number:
            return None
        return (int(packet.ina["sequence"][0]) - FIRST_SEQUENCE) % (1 << 32)


@dataclass
class Member(Host):
    """Sends DATA until it gets RESULT or ACK, or sends RECEIPTs for the root's multicasts."""

    sent: set[int] = field(default_factory=set)
    slots: dict[int, int] = field(default_factory=dict)  # ATP: by place in the window

    @property
    def rank(self) -> int:
        return self.allocation.tree.rank_of[self.name]

    @property
    def bits(self) -> int:
        return self.allocation.tree.bits(self.name)

    def slot(self, s: int) -> int:
        if not self.style.shares_slots:
            return super().slot(s)
        return self.slots.get(s % WINDOW, (s % WINDOW) % self.allocation.slots)

    def due(self) -> list[int]:
        return [] if self.multicasts else super().due()

    def speak(self, s: int) -> None:
        again = self.style.shares_slots and s in self.sent
        flags = wire.FLAG_RESEND if again else 0
        flags |= self.priority(s) << wire.PRIORITY_SHIFT
        self.sent.add(s)
        parent = self.allocation.tree.parent[self.name]
        packet = self.packet(wire.KIND_DATA, s, parent, self.bits, flags=flags)
        sequence = FIRST_SEQUENCE + s
        packet.values = contribution(self.allocation.number, self.rank, sequence, self.style)
        self.send(packet)

    def hear(self, packet: Packet) -> None:
        s, kind = self.place(packet), packet.ina["kind"][0]
        if s is None:
            return
        if self.multicasts and kind == wire.KIND_RESULT:
            self.done.add(s)
            parent = self.allocation.tree.parent[self.name]
            self.send(self.packet(wire.KIND_RECEIPT, s, parent, self.bits))
        elif s in self.sent and s not in self.done:
            self.slots[s % WINDOW] = int(packet.ina["next_slot"][0])
            self.done.add(s)


@dataclass
class Root(Host):
    """Counts each contribution once and answers, or multicasts and counts receipts."""

    heard: dict[int, frozenset[int]] = field(default_factory=dict)  # ranks by fragment
    collided: set[int] = field(default_factory=set)
    slots: dict[int, int] = field(default_factory=dict)
    random: Random = field(default_factory=lambda: Random(1))

    @property
    def everyone(self) -> frozenset[int]:
        return frozenset(self.allocation.tree.rank_of.values())

    def due(self) -> list[int]:
        return super().due() if self.multicasts else []

    def speak(self, s: int) -> None:
        for child in self.allocation.tree.children(self.name):
            self._answer(s, child)

    def _answer(self, s: int, to: str) -> None:
        """Send the true sum. The test ensures that the packets that arrived add up to it."""
        tree, sums = self.allocation.tree, self.style is not RACK
        kind = wire.KIND_RESULT if sums or self.multicasts else wire.KIND_ACK
        slot = self.slots.get(s, self.slot(s))
        following = self.random.randrange(self.allocation.slots) if s in self.collided else slot
        packet = self.packet(kind, s, to, 1, slot=slot, next_slot=following)
        if kind == wire.KIND_RESULT:
            ranks = tree.rank_of.values() if sums else [63]
            packet.values = total(self.allocation.number, ranks, FIRST_SEQUENCE + s, self.style)
        self.send(packet)

    def hear(self, packet: Packet) -> None:
        s = self.place(packet)
        if s is None or s >= FRAGMENTS:
            return
        ranks, flags = contributors(packet, self.allocation.tree), int(packet.ina["flags"][0])
        if s in self.done:
            if not self.multicasts and (not self.style.shares_slots or flags & wire.FLAG_RESEND):
                self._answer_again(s, ranks)
            return
        counted = self.heard.get(s, frozenset())
        if counted & ranks and not self.multicasts:
            return
        self.heard[s] = counted | ranks
        self.slots[s] = int(packet.ina["slot"][0])
        if flags & wire.FLAG_COLLISION:
            self.collided.add(s)
        if self.heard[s] == self.everyone:
            self.done.add(s)
            if not self.multicasts:
                self.speak(s)

    def _answer_again(self, s: int, ranks: frozenset[int]) -> None:
        tree = self.allocation.tree
        if self.style.shares_slots:
            asking = [host for host, rank in tree.rank_of.items() if rank in ranks]
        else:
            children = tree.children(self.name)
            asking = [child for child in children if ranks & tree.ranks_below(child)]
        for each in asking:
            self._answer(s, each)


@dataclass
class Neighbour(Host):
    """NetReduce: sends on its connection to the next rank, and gets sums from the previous one."""

    after: Neighbour | None = None
    passes: bool = True  # whether its ToR sees what it sends to the next rank
    next: int = 0

    @property
    def rank(self) -> int:
        return self.allocation.tree.rank_of[self.name]

    def due(self) -> list[int]:
        """Fragments of open messages, and those that the next rank lacks."""
        open_message = self.lowest // MESSAGE
        end = min((open_message + WINDOW // MESSAGE) * MESSAGE, FRAGMENTS)
        first = min(self.lowest, self.after.lowest)
        return [s for s in range(first, end) if s not in self.after.done]

    def speak(self, s: int) -> None:
        opening = s - s % MESSAGE
        if s != opening and opening not in self.done:
            self._speak(opening)
        self._speak(s)

    def _speak(self, s: int) -> None:
        tree, is_sum = self.allocation.tree, s in self.done
        sequence, first = FIRST_SEQUENCE + s, s - s % MESSAGE
        to = self.after.name if self.passes or is_sum else tree.parent[self.name]
        packet = self.packet(wire.KIND_DATA, first, to, tree.bits(self.name))
        packet.udp["dport"] = wire.ROCE_PORT
        message = s // MESSAGE
        packet.ina["slot"] = message % (2 * WINDOW // MESSAGE) * MESSAGE
        packet.ina["next_slot"] = message % wire.LIVE_MESSAGES << 24 | MESSAGE
        packet.bth = np.zeros(1, BTH)
        packet.bth["opcode"] = FIRST if s == first else LAST
        packet.bth["reserved"] = IS_SUM if is_sum else 0
        set_number(packet.bth["sequence"], sequence % (1 << 24))
        set_number(packet.bth["connection"], wire.connection(self.allocation.number, self.rank))
        ranks = tree.rank_of.values() if is_sum else [self.rank]
        packet.values = total(self.allocation.number, ranks, sequence, self.style)
        if s != first:
            packet.ina = None
        self.send(packet)

    def hear(self, packet: Packet) -> None:
        ring = sorted(self.allocation.tree.rank_of.values())
        before = ring[ring.index(self.rank) - 1]
        if packet.bth is None or not packet.bth["reserved"][0] & IS_SUM:
            return
        if number(packet.bth["connection"]) == wire.connection(self.allocation.number, before):
            s = (number(packet.bth["sequence"]) - FIRST_SEQUENCE) % (1 << 24)
            if s < FRAGMENTS:
                self.done.add(s)


def contributors(packet: Packet, tree: Tree) -> frozenset[int]:
    """The ranks whose contributions an upward packet names."""
    bitmap, number = int(packet.ina["bitmap"][0]), int(packet.ina["next_slot"][0])
    if not tree.is_wide:
        return frozenset(rank for rank in tree.rank_of.values() if bitmap >> rank & 1)
    bits = (bit for bit in range(wire.BITMAP) if bitmap >> bit & 1)
    return frozenset().union(*(tree.behind[number, bit] for bit in bits))


def total(tree: int, ranks: Iterable[int], sequence: int, style: TreeProtocol) -> np.ndarray:
    """What a slot holds after these ranks' contributions: for most protocols, their sum."""
    parts = [contribution(tree, rank, sequence, style) for rank in ranks]
    return style.reference.total(parts).astype(">i4")


def wrong(packet: Packet, trees: Mapping[int, Allocation], multicasts: bool) -> bool:
    """Whether a packet's values are not the sum of the ranks that it names.

    On a connection, a packet is the sum if it is marked, and otherwise a contribution, which no
    host takes.
    """
    if packet.values is None:
        return False
    if packet.bth is not None:
        allocation = trees[number(packet.bth["connection"]) // wire.MAX_RANKS]
        known = (number(packet.bth["sequence"]) - FIRST_SEQUENCE) % (1 << 24)
        if not packet.bth["reserved"][0] & IS_SUM:
            return False
        sequence, ranks = FIRST_SEQUENCE + known, list(allocation.tree.rank_of.values())
    else:
        assert packet.ina is not None
        allocation, sequence = trees[int(packet.ina["tree"][0])], int(packet.ina["sequence"][0])
        if packet.ina["kind"][0] == wire.KIND_RESULT:
            ranks = [63] if multicasts else list(allocation.tree.rank_of.values())
        else:
            ranks = list(contributors(packet, allocation.tree))
    expected = total(allocation.number, ranks, sequence, allocation.tree.protocol)
    return not np.array_equal(packet.values, expected)
