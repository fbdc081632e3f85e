"""Source routes and labels, valid and broken."""

from __future__ import annotations

import random

from native_case import Packet

from testbed.protocols.tables import Exact, TableEntry, Ternary
from testbed.switches.control import Control


def stacks(switch: Control) -> None:
    def label(value: int, mask: int, another: int, action: str, *params: int) -> None:
        match = (Exact(value), Ternary(5 & mask, mask), Exact(another))
        switch.insert(TableEntry("I.labels", match, action, params, 10))

    for another in (0, 1):
        label(100, 0, another, "I.swap", 200, 1)
        label(101, 7, another, "I.push", 201, 2)
        label(102, 0, another, "I.push_two", 202, 203, 3)
        label(103, 4, another, "I.pop", 1)
        label(104, 0, another, "I.pop_two", 2)
    label(105, 0, 1, "I.pop", 3)


def stacks_packets() -> list[Packet]:
    generator = random.Random(5)
    packets: list[Packet] = []
    for n in range(240):
        kind = generator.choice([0x88B7, 0x88B7, 0x8847, 0x0800, 0x86DD])
        frame = bytes(range(12)) + kind.to_bytes(2, "big")
        if kind == 0x88B7:
            depth = generator.choice([1, 1, 2, 3, 4, 5, 6, 7])
            for hop in range(depth):
                last = hop == depth - 1 and generator.random() < 0.9
                frame += (last << 15 | generator.getrandbits(15)).to_bytes(2, "big")
        if kind in (0x88B7, 0x8847) and generator.random() < 0.8:
            depth = generator.randrange(1, 5)
            for position in range(depth):
                bottom = position == depth - 1
                value = generator.choice([100, 101, 102, 103, 104, 105, 106])
                word = value << 12 | generator.choice([5, 4, 1]) << 9 | bottom << 8
                word |= generator.choice([0, 1, 2, 64, 255])
                frame += word.to_bytes(4, "big")
        frame += bytes([generator.choice([0x45, 0x60, 0x10])]) + generator.randbytes(n % 20)
        if generator.random() < 0.2:
            frame = frame[: generator.randrange(14, len(frame) + 1)]
        packets.append((n % 3 + 1, frame))
    return packets
