"""The reference of NetReduce's switch, for packets already matched by connection."""

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
    """Every held packet continues to its destination with the sum in it."""
    if packet.kind == RESULT:
        packet.to = NOWHERE
        if slot is None or not slot.holds(packet):
            return Event.REFUSED
        slot.keep_result(packet, part.members)
        _answer_all(part, packet, slot)
        return Event.RETURNED
    destination, packet.to = packet.to, NOWHERE
    event = pool(part, packet, slot)
    if slot is None:
        return event
    if packet.on is not None and event is not Event.REFUSED:
        slot.on = packet.on
    if event is Event.COMPLETED and part.parent is None:
        slot.answered = True
        slot.load(packet)
        _answer_all(part, packet, slot)
    elif event is Event.DUPLICATE and slot.answered:
        slot.load(packet)
        packet.kind = RESULT
        if packet.on is None:
            packet.to = sender
        elif destination == part.own:
            _answer_all(part, packet, slot)
        else:  # its destination misses the sum
            packet.source, packet.to = sender, destination
    elif event in (Event.COMPLETED, Event.DUPLICATE) and slot.who == part.members:
        slot.load(packet)
        packet.to, packet.on = part.parent, None
    return event


def _answer_all(part: Part, packet: Ina, slot: Slot) -> None:
    """Send on every held packet with the sum in it: they differ only by connection."""
    packet.kind, packet.bitmap, packet.to, packet.on = RESULT, part.members, CHILDREN, slot.on


MODEL = Model(frozenset({DATA, RESULT}), handle)
