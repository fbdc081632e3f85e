"""The reference of A2TP's switch."""

from __future__ import annotations

from testbed import wire
from testbed.protocols.atp import reference as atp
from testbed.protocols.events import Event
from testbed.protocols.reference import Ina, Model, Part, Slot

WITH_THE_SLOT = (Event.ADDED, Event.COMPLETED, Event.DUPLICATE, Event.FLUSHED)


def handle(part: Part, packet: Ina, slot: Slot | None, sender: int) -> Event:
    """As in ATP. In addition, the owner of a slot learns that others wanted it."""
    event = atp.handle(part, packet, slot, sender)
    if slot is None:
        return event
    if event is Event.COLLISION:
        slot.contended = True
    elif event in WITH_THE_SLOT and slot.contended:
        packet.flags |= wire.FLAG_CONTENDED
    return event


MODEL = Model(atp.MODEL.kinds, handle)
