"""The protocol in Python: what a switch does with a packet of one of its trees.

Written from the rules, for the tests to hold both targets to, and to be read. Frames, tables and
routes are in ``reference_switch.py``.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from testbed import wire
from testbed.plan.trees import Style
from testbed.switches.events import Event

DATA, RESULT, RECEIPT, ACK = wire.KIND_DATA, wire.KIND_RESULT, wire.KIND_RECEIPT, wire.KIND_ACK
KEPT_FLAGS = wire.FLAG_OVERFLOW | wire.FLAG_ECN  # what befell a contribution befell the sum

CHILDREN = "children"
NOWHERE = None

KINDS = {
    Style.ATP: {DATA, RESULT, ACK},
    Style.SWITCHML: {DATA, RESULT},
    Style.RACK: {DATA, RESULT, RECEIPT, ACK},
    Style.NETREDUCE: {DATA, RESULT},
}


@dataclass(frozen=True)
class Child:
    """``peer`` and ``connection``: NetReduce, from whom and on what connection a host receives."""

    address: int
    peer: int = 0
    connection: int | None = None


@dataclass(frozen=True)
class Part:
    """What the control plane told a switch of one tree. ``members`` are the ranks below it."""

    job: int
    style: Style
    own: int
    members: int
    parent: int | None
    children: tuple[Child, ...]
    first: int
    slots: int
    watch: bool


@dataclass(frozen=True)
class Opening:
    """What a packet on a connection has besides (RoCEv2)."""

    opcode: int
    flags: int
    partition: int
    psn: int


@dataclass
class Ina:
    """A packet of a tree; ``values`` is None where there are none, or less than all.

    ``to`` is where it goes: an address, ``CHILDREN``, ``NOWHERE``. ``on`` is None unless it
    travels on a connection.
    """

    kind: int
    flags: int
    tree: int
    sequence: int
    slot: int
    next_slot: int
    bitmap: int
    values: np.ndarray | None
    source: int
    to: int | str | None
    on: Opening | None = None

    @property
    def fragment(self) -> tuple[int, int]:
        return self.tree, self.sequence


@dataclass
class Slot:
    """Switch memory for one fragment; free while ``who`` is 0."""

    values: np.ndarray
    fragment: tuple[int, int] = (0, 0)
    who: int = 0
    flags: int = 0
    answered: bool = False  # holds the final sum
    on: Opening = Opening(0, 0, 0, 0)  # NetReduce's header buffer: of the last packet to come

    def holds(self, packet: Ina) -> bool:
        return self.who != 0 and self.fragment == packet.fragment

    def has(self, packet: Ina) -> bool:
        """Whether any of the packet's contributions is in the sum already."""
        return self.holds(packet) and self.who & packet.bitmap != 0

    def add(self, packet: Ina, watch: bool = False, saturate: bool = False) -> None:
        """Add the packet to its fragment, or begin that anew."""
        begins = not self.holds(packet)
        if begins:
            self.fragment, self.who, self.flags, self.answered = packet.fragment, 0, 0, False
        self.who |= packet.bitmap
        if packet.values is None:  # a receipt
            return
        self.flags |= packet.flags & KEPT_FLAGS
        exact = packet.values.astype(np.int64) + (0 if begins else self.values)
        limits = np.iinfo(np.int32)
        if watch and ((exact < limits.min) | (exact > limits.max)).any():
            self.flags |= wire.FLAG_OVERFLOW
        if saturate:
            exact = exact.clip(limits.min, limits.max)
        self.values = exact.astype(np.int32)  # wraps around

    def load(self, packet: Ina) -> None:
        """Make the packet carry the sum."""
        packet.bitmap = self.who
        if packet.values is not None:
            packet.values = self.values.copy()
            packet.flags |= self.flags

    def keep_result(self, packet: Ina, everyone: int) -> None:
        self.values, self.who, self.answered = packet.values.astype(np.int32), everyone, True
        self.flags |= packet.flags & KEPT_FLAGS
        packet.flags |= self.flags


def older(sequence: int, than: int) -> bool:
    """Sequence numbers count round: half of them are older than any other."""
    return (sequence - than) % (1 << 32) >= 1 << 31


@dataclass
class Aggregation:
    """A switch's memory of ``lanes`` values a slot, and what packets do to it."""

    lanes: int = wire.VALUES
    saturate: bool = False
    memory: dict[int, Slot] = field(default_factory=dict)

    def handle(self, part: Part, packet: Ina) -> Event:
        """Changes ``packet`` into what leaves; where to is in ``packet.to``."""
        sender, packet.source = packet.source, part.own
        upwards = packet.kind in (DATA, RECEIPT)
        whole = (packet.values is not None) == (packet.kind in (DATA, RESULT))
        ours = packet.bitmap != 0 and packet.bitmap & ~part.members == 0
        if packet.kind not in KINDS[part.style] or not whole or (upwards and not ours):
            packet.to = NOWHERE
            return Event.REFUSED
        slot = self._slot(part, packet)
        if part.style is Style.ATP:
            return self._atp(part, packet, slot)
        if part.style is Style.SWITCHML:
            return self._switchml(part, packet, slot, sender)
        if part.style is Style.RACK:
            return self._rack(part, packet, slot)
        return self._netreduce(part, packet, slot, sender)

    def _slot(self, part: Part, packet: Ina) -> Slot | None:
        """None beyond the tree's own part of the memory."""
        if packet.slot >= part.slots:
            return None
        empty = Slot(np.zeros(self.lanes, np.int32))
        return self.memory.setdefault(part.first + packet.slot, empty)

    def _atp(self, part: Part, packet: Ina, slot: Slot | None) -> Event:
        held = slot if slot is not None and slot.holds(packet) else None
        if packet.kind in (RESULT, ACK):
            packet.to = CHILDREN
            if held:
                held.who = 0
            return Event.FREED if held else Event.RETURNED
        packet.to = part.parent
        if packet.flags & wire.FLAG_FLOATS:
            return Event.PASSED
        if packet.flags & wire.FLAG_RESEND:
            if not held:
                return Event.PASSED
            if not held.has(packet):
                held.add(packet, part.watch, self.saturate)
            held.load(packet)
            held.who = 0
            return Event.FLUSHED
        if slot is None or (slot.who and not held):
            packet.flags |= wire.FLAG_COLLISION
            return Event.COLLISION
        event = Event.ADDED if held else Event.STORED
        if slot.has(packet):
            event = Event.DUPLICATE
        else:
            slot.add(packet, part.watch, self.saturate)
        if slot.who != part.members:
            packet.to = NOWHERE
            return event
        slot.load(packet)
        return Event.DUPLICATE if event is Event.DUPLICATE else Event.COMPLETED

    def _pool(self, part: Part, packet: Ina, slot: Slot | None) -> Event:
        """A contribution to a slot whose older fragment nobody needs any more."""
        if slot is None or (slot.who and older(packet.sequence, slot.fragment[1])):
            return Event.REFUSED
        if slot.has(packet):
            return Event.DUPLICATE
        event = Event.ADDED if slot.holds(packet) else Event.STORED
        slot.add(packet, part.watch, self.saturate)
        return Event.COMPLETED if slot.who == part.members else event

    def _switchml(self, part: Part, packet: Ina, slot: Slot | None, sender: int) -> Event:
        if packet.kind == RESULT:
            packet.to = CHILDREN
            if slot is not None and slot.holds(packet) and not slot.answered:
                slot.keep_result(packet, part.members)
            return Event.RETURNED
        event = self._pool(part, packet, slot)
        packet.to = NOWHERE
        if event is Event.COMPLETED and part.parent is None:
            slot.answered = True
            slot.load(packet)
            packet.kind, packet.to = RESULT, CHILDREN
        elif event is Event.DUPLICATE and slot.answered:
            slot.load(packet)
            packet.kind, packet.to = RESULT, sender
        elif event in (Event.COMPLETED, Event.DUPLICATE) and slot.who == part.members:
            slot.load(packet)
            packet.to = part.parent
        return event

    def _rack(self, part: Part, packet: Ina, slot: Slot | None) -> Event:
        if packet.kind in (RESULT, ACK):
            packet.to = CHILDREN
            return Event.RETURNED
        event = self._pool(part, packet, slot)
        packet.to = NOWHERE
        if event in (Event.COMPLETED, Event.DUPLICATE) and slot.who == part.members:
            slot.load(packet)
            packet.to = part.parent
        return event

    def _netreduce(self, part: Part, packet: Ina, slot: Slot | None, sender: int) -> Event:
        if packet.kind == RESULT:
            packet.to = NOWHERE
            if slot is None or not slot.holds(packet):
                return Event.REFUSED
            slot.keep_result(packet, part.members)
            self._answer_all(part, packet, slot)
            return Event.RETURNED
        destination, packet.to = packet.to, NOWHERE
        event = self._pool(part, packet, slot)
        if packet.on is not None and event is not Event.REFUSED:
            slot.on = packet.on
        if event is Event.COMPLETED and part.parent is None:
            slot.answered = True
            slot.load(packet)
            self._answer_all(part, packet, slot)
        elif event is Event.DUPLICATE and slot.answered:
            slot.load(packet)
            packet.kind = RESULT
            if packet.on is None:
                packet.to = sender
            elif destination == part.own:
                self._answer_all(part, packet, slot)
            else:  # to whom its sender sent it: that one misses the sum
                packet.source, packet.to = sender, destination
        elif event in (Event.COMPLETED, Event.DUPLICATE) and slot.who == part.members:
            slot.load(packet)
            packet.to, packet.on = part.parent, None
        return event

    def _answer_all(self, part: Part, packet: Ina, slot: Slot) -> None:
        """Every held packet goes on, the sum in it: they differ by connection alone."""
        packet.kind, packet.bitmap, packet.to, packet.on = RESULT, part.members, CHILDREN, slot.on
