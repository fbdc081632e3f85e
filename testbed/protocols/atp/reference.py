"""The reference of ATP's switch."""

from __future__ import annotations

from testbed import wire
from testbed.protocols.events import Event
from testbed.protocols.reference import (
    ACK,
    CHILDREN,
    DATA,
    NOWHERE,
    RESULT,
    Ina,
    Model,
    Part,
    Slot,
)


def handle(part: Part, packet: Ina, slot: Slot | None, sender: int) -> Event:
    """The first fragment claims the slot; packets of other fragments continue to the root."""
    held = slot if slot is not None and slot.holds(packet) else None
    if packet.kind in (RESULT, ACK):
        packet.to = CHILDREN
        if held:
            held.who = 0
        return Event.FREED if held else Event.RETURNED
    packet.to = part.parent
    if packet.flags & wire.FLAG_FLOATS or part.number not in (0, packet.next_slot):
        return Event.PASSED
    if packet.flags & wire.FLAG_RESEND:
        if not held:
            return Event.PASSED
        if not held.has(packet):
            held.add(packet, part.watch)
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
        slot.add(packet, part.watch)
    if slot.who != part.members:
        packet.to = NOWHERE
        return event
    slot.load(packet)
    return Event.DUPLICATE if event is Event.DUPLICATE else Event.COMPLETED


MODEL = Model(frozenset({DATA, RESULT, ACK}), handle)
