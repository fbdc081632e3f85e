"""The toy's switch."""

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
    """All members get each answer, the first one and every later one."""
    if packet.kind == RESULT:
        packet.to = CHILDREN
        if slot is not None and slot.holds(packet) and not slot.answered:
            slot.keep_result(packet, part.members)
        return Event.RETURNED
    event = pool(part, packet, slot)
    packet.to = NOWHERE
    if slot is None or event not in (Event.COMPLETED, Event.DUPLICATE):
        return event
    if slot.who == part.members:
        slot.load(packet)
        packet.to = part.parent
        if part.parent is None or slot.answered:
            slot.answered = True
            packet.kind, packet.to = RESULT, CHILDREN
    return event


MODEL = Model(frozenset({DATA, RESULT}), handle)
