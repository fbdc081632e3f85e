"""The reference of OmniReduce's switch."""

from __future__ import annotations

from testbed.protocols.events import Event
from testbed.protocols.reference import (
    CHILDREN,
    DATA,
    NOWHERE,
    RESULT,
    Ina,
    Model,
    Part,
    Slot,
    older,
    pool,
)


def handle(part: Part, packet: Ina, slot: Slot | None, sender: int) -> Event:
    """A sum leaves with the least next block of its contributions. So does each repetition of
    it."""
    if packet.kind == RESULT:
        packet.to = CHILDREN
        if slot is not None and slot.holds(packet) and not slot.answered:
            slot.keep_result(packet, part.members)
            slot.next = packet.next_slot
        return Event.RETURNED
    event = pool(part, packet, slot)
    packet.to = NOWHERE
    if slot is None or event is Event.REFUSED:
        return event
    begins = event is Event.STORED or slot.who == packet.bitmap
    if event is not Event.DUPLICATE and (begins or older(packet.next_slot, slot.next)):
        slot.next = packet.next_slot
    if slot.who != part.members:
        return event
    slot.load(packet)
    packet.next_slot = slot.next
    if slot.answered:
        packet.kind, packet.to = RESULT, sender
    elif part.parent is None:
        slot.answered = True
        packet.kind, packet.to = RESULT, CHILDREN
    else:
        packet.to = part.parent
    return event


MODEL = Model(frozenset({DATA, RESULT}), handle, names_next=True)
