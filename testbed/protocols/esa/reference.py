"""The reference of ESA's switch."""

from __future__ import annotations

from dataclasses import replace

from testbed import wire
from testbed.protocols.atp import reference as atp
from testbed.protocols.events import Event
from testbed.protocols.reference import KEPT_FLAGS, Ina, Model, Part, Slot


def handle(part: Part, packet: Ina, slot: Slot | None, sender: int) -> Event:
    """As in ATP, with two differences. A packet of a higher priority takes a slot, and the slot's
    sum leaves instead of the packet. A complete sum frees its slot. A slot without a priority
    belongs to another protocol."""
    came = replace(packet)
    held = slot is not None and slot.holds(packet)
    event = atp.handle(part, packet, slot, sender)
    if slot is None:
        return event
    priority = came.flags >> wire.PRIORITY_SHIFT
    if event is Event.COLLISION:
        alone = came.bitmap == part.members
        if priority <= slot.priority or not slot.priority or alone:
            return event
        _evict(packet, slot)
        slot.who = 0
        slot.add(came)
        slot.flags = came.flags & KEPT_FLAGS
        slot.priority, slot.route = priority, (part.parent, part.number)
        return Event.EVICTED
    if event in (Event.STORED, Event.COMPLETED) and not held:
        slot.priority, slot.route = priority, (part.parent, part.number)
    if event is Event.COMPLETED:
        slot.who = 0
    return event


def _evict(packet: Ina, slot: Slot) -> None:
    """Turn the packet into the sum in the slot, addressed to that sum's own parent."""
    packet.tree, packet.sequence = slot.fragment
    packet.bitmap, packet.values = slot.who, slot.values
    packet.flags = slot.flags | slot.priority << wire.PRIORITY_SHIFT | wire.FLAG_COLLISION
    packet.to, packet.next_slot = slot.route


MODEL = Model(atp.MODEL.kinds, handle)
