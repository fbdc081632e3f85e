"""Packets with right and wrong checksums, and bit fields at odd offsets."""

from __future__ import annotations

import random

from native_case import Packet
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import Ether

from testbed.protocols.tables import Exact, TableEntry
from testbed.switches.control import Control


def checks(switch: Control) -> None:
    for kind, flags in ((0x0800, 2), (0x88B8, 4), (0x1234, 8)):
        switch.insert(TableEntry("I.types", (Exact(kind),), "I.note", (flags,)))


def checks_packets() -> list[Packet]:
    generator = random.Random(6)
    packets: list[Packet] = []
    for n in range(120):
        ethernet = Ether(dst=generator.randbytes(6).hex(":"), src=generator.randbytes(6).hex(":"))
        ip = IP(src="10.1.2.3", dst=f"10.0.{n}.1", ttl=n % 5 + 1, tos=n % 3, id=n)
        load = generator.randbytes(generator.choice([0, 1, 2, 7, 90, 300]))
        transport = UDP(sport=generator.getrandbits(16), dport=generator.choice([5, 1023, 1024]))
        frame = bytearray(bytes(ethernet / ip / (TCP() if n % 7 == 0 else transport) / load))
        if generator.random() < 0.3:
            frame[generator.randrange(14, len(frame))] ^= 1 << generator.randrange(8)
        if generator.random() < 0.1 and frame[23] == 17:
            frame[40:42] = b"\0\0"  # no UDP checksum
        packets.append((n % 3 + 1, bytes(frame)))
    for n in range(60):
        kind = 0x88B8 if n % 6 else 0x1234
        other = generator.randbytes(12) + kind.to_bytes(2, "big")
        other += generator.choice([generator.randbytes(15), bytes(15), b"\xff" * 15])
        packets.append((n % 3 + 1, other + generator.randbytes(n % 10)))
    packets += [(1, packets[1][1][:n]) for n in (14, 15, 30, 34, 35, 42, 43)]
    return packets
