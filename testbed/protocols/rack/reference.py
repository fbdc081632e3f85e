"""The reference of the rack's switch."""

from __future__ import annotations

from testbed.protocols.events import Event
from testbed.protocols.reference import (
    ACK,
    CHILDREN,
    DATA,
    NOWHERE,
    RECEIPT,
    RESULT,
    Ina,
    Model,
    Part,
    Slot,
    pool,
)


def handle(part: Part, packet: Ina, slot: Slot | None, sender: int) -> Event:
    """Sums and receipts go up as one stream; packets that come down are copied."""
    if packet.kind in (RESULT, ACK):
        packet.to = CHILDREN
        return Event.RETURNED
    event = pool(part, packet, slot)
    packet.to = NOWHERE
    if slot is None:
        return event
    if event in (Event.COMPLETED, Event.DUPLICATE) and slot.who == part.members:
        slot.load(packet)
        packet.to = part.parent
    return event


MODEL = Model(frozenset({DATA, RESULT, RECEIPT, ACK}), handle)
