"""The reference of SwitchML's switch."""

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
    pool,
)


def handle(part: Part, packet: Ina, slot: Slot | None, sender: int) -> Event:
    """The root sends the sum to all members, and the answer to a repeated packet only to its
    sender."""
    if packet.kind == RESULT:
        packet.to = CHILDREN
        if slot is not None and slot.holds(packet) and not slot.answered:
            slot.keep_result(packet, part.members)
        return Event.RETURNED
    event = pool(part, packet, slot)
    packet.to = NOWHERE
    if slot is None:
        return event
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


MODEL = Model(frozenset({DATA, RESULT}), handle)
