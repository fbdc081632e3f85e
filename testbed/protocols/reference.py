"""The protocols' rules in Python: what a switch does with a packet of one of its trees.

It is written from the rules, for readers and as the reference in tests of both targets. Each
protocol on trees has its own part in ``<name>/reference.py``; this module has the common part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from testbed import wire
from testbed.protocols.events import Event

DATA, RESULT, RECEIPT, ACK = wire.KIND_DATA, wire.KIND_RESULT, wire.KIND_RECEIPT, wire.KIND_ACK
KEPT_FLAGS = wire.FLAG_OVERFLOW | wire.FLAG_ECN  # a contribution passes these on to the sum

CHILDREN = "children"
NOWHERE = None

Values: TypeAlias = npt.NDArray[np.int32]
Combine: TypeAlias = Callable[[Values, Values], Values]
"""Combines the values of two contributions."""


@dataclass(frozen=True)
class Child:
    """A node below. For a host on connections, ``peer`` is the host that sends to it, and
    ``connection`` the connection from there."""

    address: int
    peer: int = 0
    connection: int | None = None


@dataclass(frozen=True)
class Part:
    """A switch's configuration for one tree. ``members`` has the bits of its children, and
    ``number`` makes these bits unique in the tree. ``total`` has the bits and the number of their
    sum at the parent; None at the root. Both numbers are 0 if each bit is a rank."""

    job: int
    model: Model
    own: int
    members: int
    parent: int | None
    children: tuple[Child, ...]
    first: int
    slots: int
    watch: bool
    total: tuple[int, int] | None = None
    number: int = 0


@dataclass(frozen=True)
class Opening:
    """The additional fields of a packet on a connection (RoCEv2)."""

    opcode: int
    flags: int
    partition: int
    psn: int


@dataclass
class Ina:
    """A packet of a tree; ``values`` is None if it has none, or not all.

    ``to`` is its destination: an address, ``CHILDREN`` or ``NOWHERE``. ``on`` is None unless it
    belongs to a connection.
    """

    kind: int
    flags: int
    tree: int
    sequence: int
    slot: int
    next_slot: int
    bitmap: int
    values: Values | None
    source: int
    to: int | str | None
    on: Opening | None = None

    @property
    def fragment(self) -> tuple[int, int]:
        return self.tree, self.sequence


@dataclass
class Slot:
    """Switch memory for one fragment; free while ``who`` is 0."""

    values: Values
    saturate: bool = False
    fragment: tuple[int, int] = (0, 0)
    who: int = 0
    flags: int = 0
    answered: bool = False  # holds the final sum
    next: int = 0  # the least `next_slot` of its contributions, where that counts
    on: Opening = Opening(0, 0, 0, 0)  # header buffer: that of the last packet
    contended: bool = False  # A2TP: another fragment wanted the slot
    priority: int = 0  # ESA
    route: tuple[int | None, int] = (None, 0)  # ESA: the sum's parent, and the number of its bits

    def holds(self, packet: Ina) -> bool:
        return self.who != 0 and self.fragment == packet.fragment

    def has(self, packet: Ina) -> bool:
        """Whether the sum already contains any of the packet's contributions."""
        return self.holds(packet) and self.who & packet.bitmap != 0

    def add(self, packet: Ina, watch: bool = False, combine: Combine | None = None) -> None:
        """Add the packet to its fragment, ``combine`` the two, or start the fragment."""
        begins = not self.holds(packet)
        if begins:
            self.fragment, self.who, self.flags, self.answered = packet.fragment, 0, 0, False
            self.contended, self.priority = False, 0
        self.who |= packet.bitmap
        if packet.values is None:  # a receipt
            return
        self.flags |= packet.flags & KEPT_FLAGS
        if combine is not None and not begins:
            self.values = combine(self.values, packet.values.astype(np.int32))
            return
        exact = packet.values.astype(np.int64) + (0 if begins else self.values)
        limits = np.iinfo(np.int32)
        if watch and ((exact < limits.min) | (exact > limits.max)).any():
            self.flags |= wire.FLAG_OVERFLOW
        if self.saturate:
            exact = exact.clip(limits.min, limits.max)
        self.values = exact.astype(np.int32)  # wraps around

    def load(self, packet: Ina) -> None:
        """Make the packet carry the sum."""
        packet.bitmap = self.who
        if packet.values is not None:
            packet.values = self.values.copy()
            packet.flags |= self.flags

    def keep_result(self, packet: Ina, everyone: int) -> None:
        assert packet.values is not None
        self.values, self.who, self.answered = packet.values.astype(np.int32), everyone, True
        self.flags |= packet.flags & KEPT_FLAGS
        packet.flags |= self.flags


@dataclass(frozen=True)
class Model:
    """A protocol's switch: the ``kinds`` of packets that it takes, and how it handles one.

    ``handle`` takes the switch's part, the packet, its slot (None beyond the tree's own part of the
    memory) and the packet's sender. It changes the packet into the one that leaves. ``names_next``:
    on a tree of many workers, `next_slot` of upward packets is not the number of their bits.
    ``combine``: what is computed instead of the sum, if anything.
    """

    kinds: frozenset[int]
    handle: Callable[[Part, Ina, Slot | None, int], Event]
    names_next: bool = False
    combine: Combine | None = None

    def total(self, contributions: Sequence[npt.NDArray[np.integer[Any]]]) -> Values:
        """What a slot holds after ``contributions`` of integers, which become int32."""
        parts = [each.astype(np.int32) for each in contributions]
        found: Values = reduce(self.combine or np.add, parts)
        return found


def older(sequence: int, than: int) -> bool:
    """Whether ``sequence`` is older than ``than``. Numbers wrap around: half of all are older than
    any one."""
    return (sequence - than) % (1 << 32) >= 1 << 31


def pool(part: Part, packet: Ina, slot: Slot | None) -> Event:
    """A contribution to a slot whose older fragment no rank needs any more (``p4/pool.p4``)."""
    if slot is None or (slot.who and older(packet.sequence, slot.fragment[1])):
        return Event.REFUSED
    if slot.has(packet):
        return Event.DUPLICATE
    event = Event.ADDED if slot.holds(packet) else Event.STORED
    slot.add(packet, part.watch, part.model.combine)
    return Event.COMPLETED if slot.who == part.members else event


@dataclass
class Aggregation:
    """A switch's memory of ``lanes`` values a slot, and what packets do to it."""

    lanes: int = wire.VALUES
    saturate: bool = False
    memory: dict[int, Slot] = field(default_factory=dict)

    def handle(self, part: Part, packet: Ina) -> Event:
        """Changes ``packet`` into the one that leaves; ``packet.to`` is its destination."""
        sender, packet.source = packet.source, part.own
        upwards = packet.kind in (DATA, RECEIPT)
        whole = (packet.values is not None) == (packet.kind in (DATA, RESULT))
        ours = packet.bitmap != 0 and packet.bitmap & ~part.members == 0
        passes = part.number != 0 and packet.next_slot != part.number
        if packet.kind not in part.model.kinds or not whole or (upwards and not ours | passes):
            packet.to = NOWHERE
            return Event.REFUSED
        event = part.model.handle(part, packet, self._slot(part, packet), sender)
        sums = packet.kind in (DATA, RECEIPT) and packet.bitmap == part.members and not passes
        if sums and part.total is not None and part.total[1]:
            packet.bitmap, number = part.total
            packet.next_slot = packet.next_slot if part.model.names_next else number
        return event

    def _slot(self, part: Part, packet: Ina) -> Slot | None:
        """The packet's slot; None beyond the tree's own part of the memory."""
        if packet.slot >= part.slots:
            return None
        empty = Slot(np.zeros(self.lanes, np.int32), self.saturate)
        return self.memory.setdefault(part.first + packet.slot, empty)
