"""Flows that empty their buckets. Rates are zero, so that time does not matter."""

from __future__ import annotations

import random

from native_case import Packet

from testbed.protocols.tables import TableEntry, Ternary
from testbed.switches.control import Control


def meters(switch: Control) -> None:
    switch.insert(TableEntry("I.flows", (Ternary(0x1234, 0xFFFF),), "I.note", (), 20))
    switch.insert(TableEntry("I.flows", (Ternary(0x1200, 0xFF00),), "I.note", (), 10))
    switch.insert(TableEntry("I.flows", (Ternary(0x0034, 0x00FF),), "I.note", (), 30))
    for flow, (committed, peak) in enumerate(((3, 7), (0, 5), (6, 6))):
        switch.meter_rates("I.by_packets", flow, (0.0, committed), (0.0, peak))
        switch.meter_rates("I.by_bytes", flow, (0.0, 50 * committed), (0.0, 50 * peak))
    switch.meter_rates("I.by_entry", 1, (0.0, 4), (0.0, 8))
    switch.meter_rates("I.by_entry", 2, (0.0, 1), (0.0, 2))


def meters_packets() -> list[Packet]:
    generator = random.Random(7)
    packets: list[Packet] = []
    for _ in range(90):
        head = bytes(11) + bytes([generator.randrange(6)])
        kind = generator.choice([0x1234, 0x1200, 0x5634, 0x5678])
        packets.append((1, head + kind.to_bytes(2, "big") + bytes(generator.randrange(60))))
    return packets
