"""Clones, resubmits, recirculates and truncations: each one in ingress with each one in egress."""

from __future__ import annotations

import itertools
import random

from native_case import Packet

from testbed.switches.control import Control, Replica


def mirror(switch: Control) -> None:
    switch.multicast_group(1, [Replica(1, 11), Replica(2, 12), Replica(3, 13)])
    switch.multicast_group(2, [Replica(3, 1), Replica(3, 2)])
    switch.mirror_session(0, port=1)
    switch.mirror_session(5, port=3)
    switch.mirror_session(5, port=2)  # the last one counts
    switch.mirror_session(6, group=1)
    switch.mirror_session(32767, group=2)


def mirror_packets() -> list[Packet]:
    generator = random.Random(4)
    packets: list[Packet] = []
    for ingress, egress in itertools.product(range(9), range(9)):
        for _ in range(2):
            session = generator.choice([0, 5, 5, 6, 6, 7, 32767, 0x8005])
            length = generator.choice([14, 20, 37, 38, 45, 60, 100, 2000])
            request = bytes([ingress, egress]) + session.to_bytes(2, "big")
            request += length.to_bytes(2, "big")
            request += bytes([generator.randrange(4), generator.randrange(1, 4)])
            trace = bytes([0x80]) + generator.randbytes(36) if generator.random() < 0.3 else b""
            payload = generator.randbytes(generator.choice([6, 7, 30, 300]))
            packets.append((generator.randrange(1, 4), trace + request + payload))
    whole = next(packet for _, packet in packets if packet[0] == 0x80)
    packets += [(1, whole[:n]) for n in (20, 36, 37, 44, 45)]
    return packets
