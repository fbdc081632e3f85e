"""The cases; ``record_bmv2.py`` records BMv2's answers."""

from __future__ import annotations

import random
from ipaddress import IPv4Address

import numpy as np
from native_case import Case, Packet
from native_cases_again import mirror, mirror_packets
from native_cases_checks import checks, checks_packets
from native_cases_meters import meters, meters_packets
from native_cases_stacks import stacks, stacks_packets
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from testbed.protocols.tables import Exact, Lpm, Range, TableEntry, Ternary
from testbed.switches.control import Control, Replica


def router(switch: Control) -> None:
    def route(port: int, prefix: str, action: str, *params: int) -> None:
        network, length = prefix.split("/")
        match = (Exact(port), Lpm(int(IPv4Address(network)), int(length)))
        switch.insert(TableEntry("I.routes", match, action, params))

    route(1, "10.0.0.0/8", "I.route", 2, 0x020000000002)
    route(1, "10.1.0.0/16", "I.route", 3, 0x020000000003)
    route(1, "10.1.2.3/32", "I.route", 1, 0x020000000001)
    route(1, "10.9.0.0/16", "I.drop")
    route(2, "0.0.0.0/0", "I.spread", 1, 3)
    route(1, "192.168.0.0/17", "I.spread", 2, 2)


def router_packets() -> list[Packet]:
    packets: list[Packet] = []
    destinations = ["10.0.0.1", "10.1.0.9", "10.1.2.3", "10.9.1.1", "192.168.1.1", "192.168.200.1"]
    for n, destination in enumerate(destinations * 3):
        ip = IP(src=f"172.16.{n}.1", dst=destination, ttl=(64, 2, 1, 0)[n % 4], id=n, tos=n)
        frame = Ether(dst="02:00:00:00:00:aa", src="02:00:00:00:00:bb") / ip / UDP() / (b"x" * n)
        packets += [(1, bytes(frame)), (2, bytes(frame)), (3, bytes(frame))]
    good = packets[0][1]
    packets += [(1, good[:n]) for n in (14, 15, 20, 33, 34, 35)]
    packets.append((1, good[:24] + b"\0\0" + good[26:]))  # wrong checksum
    packets.append((1, good[:14] + b"\x65" + good[15:]))  # wrong version
    packets.append((1, good[:12] + b"\x08\x06" + good[14:]))  # not IPv4
    return packets


def aggregate(switch: Control) -> None:
    switch.multicast_group(1, [Replica(1, 1), Replica(2, 2), Replica(3, 3), Replica(2, 9)])
    for rid, mac in ((1, 0x020000000001), (2, 0x020000000002)):
        switch.insert(TableEntry("E.replicas", (Exact(rid),), "E.address", (mac,)))
    switch.insert(TableEntry("E.replicas", (Exact(9),), "E.skip"))


def fragment(slot: int, fanin: int, worker: int, values: np.ndarray) -> bytes:
    """``values``: 256 int32."""
    head = bytes.fromhex("0200000000aa 0200000000bb 88b5".replace(" ", ""))
    slot_header = slot.to_bytes(4, "big") + fanin.to_bytes(2, "big") + bytes([0, worker])
    return head + slot_header + values.astype(">i4").tobytes()


def aggregate_packets() -> list[Packet]:
    generator = np.random.default_rng(1)
    extremes = np.array([-(2**31), 2**31 - 1, -1, 0, 1])
    packets: list[Packet] = []
    for slot, fanin in ((0, 3), (1023, 2), (7, 1), (0, 2), (1024, 2), (5, 3)):
        for worker in range(fanin):
            values = generator.integers(-(2**31), 2**31, 256)
            values[:25] = generator.choice(extremes, 25)
            if slot == 1023:
                values //= 4
            packets.append((worker + 1, fragment(slot, fanin, worker, values)))
    packets += [(1, packets[0][1] + b"tail"), (2, packets[1][1][:1000]), (3, packets[1][1])]
    return packets


def acl(switch: Control) -> None:
    def rule(
        action: str, priority: int, source: str, mask: str, low: int, high: int, *p: int
    ) -> None:
        match = (
            Ternary(int(IPv4Address(source)), int(IPv4Address(mask))),
            Range(low, high),
            Exact(17),
        )
        switch.insert(TableEntry("I.rules", match, action, p, priority))

    rule("I.permit", 30, "10.0.0.0", "255.0.0.0", 0, 65535, 1)
    rule("I.drop", 10, "10.0.0.5", "255.0.0.255", 80, 80)
    rule("I.permit", 20, "10.0.0.0", "255.0.0.1", 1000, 1999, 2)
    rule("I.permit", 30, "0.0.0.0", "0.0.0.0", 2000, 2001, 3)
    rule("I.permit", 5, "10.7.0.0", "255.255.0.0", 7, 7, 4)


def acl_packets() -> list[Packet]:
    generator = random.Random(2)
    packets: list[Packet] = []
    for n in range(60):
        source = int(
            IPv4Address(generator.choice(["10.0.0.5", "10.2.0.4", "10.7.1.1", "11.1.1.1"]))
        )
        port = generator.choice([7, 80, 999, 1000, 1999, 2000, 2001, 2002])
        flags, rest = generator.choice([1, 2, 7, 0]), generator.choice([0x1FFF, 0x1055, 0, 1])
        flow = source.to_bytes(4, "big") + bytes(6) + port.to_bytes(2, "big")
        flow += bytes([17 if n % 9 else 6]) + (flags << 13 | rest).to_bytes(2, "big")
        packets.append((n % 3 + 1, bytes(12) + b"\x88\xb6" + flow + bytes(n)))
    return packets


def shapes(switch: Control) -> None:
    wide, middle = 0x3_0123456789ABCDEF_0123456789ABCDEF, 0x3F_123456789ABCDEF0
    match = (Exact(wide), Lpm(middle >> 6, 60))
    switch.insert(TableEntry("I.middles", match, "I.found", (0xF_01234567_ABCDEF0123456789,)))
    match = (Exact(wide), Lpm(middle >> 6, 20))
    switch.insert(TableEntry("I.middles", match, "I.found", (1,)))


def shapes_packets() -> list[Packet]:
    generator = random.Random(3)
    packets: list[Packet] = []

    def random_bits(width: int) -> int:
        return generator.choice([generator.getrandbits(width), 0, (1 << width) - 1])

    for n in range(40):  # stacks
        tags = b""
        for depth in range(n % 7):
            kind = generator.choice([1, 2, 3]) if depth == 0 else generator.choice([1, 2, 3, 5])
            last = generator.random() < 0.2
            tags += (kind << 12 | last << 11 | generator.getrandbits(11)).to_bytes(2, "big")
        packets.append((1, tags + bytes(generator.randrange(3)) + bytes([0x10 * n % 256])))
    wide, middle = 0x3_0123456789ABCDEF_0123456789ABCDEF, 0x3F_123456789ABCDEF0
    for n in range(30):
        fields = [(random_bits(3), 3), (random_bits(130), 130), (random_bits(70), 70)]
        if n % 3 == 0:
            fields[1:] = [(wide, 130), (middle ^ (n % 2) << 40, 70)]
        fields += [(random_bits(64), 64), (random_bits(5), 5)]
        value = 0
        for field, width in fields:
            value = value << width | field
        packets.append((1, b"\x40" + value.to_bytes(34, "big") + bytes(n)))
    for n in range(120):
        x, y = random_bits(200), random_bits(200)
        shift = generator.choice(
            [0, 1, 7, 63, 64, 65, 128, 199, 200, 255, generator.getrandbits(8)]
        )
        op = n % 11
        if op == 9:
            shift %= 4
        if op == 6 and generator.random() < 0.3:
            y = x
        body = x.to_bytes(25, "big") + y.to_bytes(25, "big") + bytes([shift, op])
        packets.append((1, b"\x60" + body + bytes(n % 4)))
    for n in range(60):
        body = b"".join(random_bits(16).to_bytes(2, "big") for _ in range(2))
        packets.append(
            (1, bytes([0x80 | n % 2 << 4]) + body + bytes([random_bits(8), random_bits(8)]))
        )
    for n in range(16):
        packets.append((1, bytes([0xC0 | n]) + bytes(generator.getrandbits(8) for _ in range(17))))
        packets.append((1, bytes([0x40 | n]) + bytes(2 * n)))
    # An interface neither receives nor sends packets that are shorter than an Ethernet header.
    return [(port, packet.ljust(40, b"\x5a")) for port, packet in packets]


_CHECKED = (("I.by_packets", 4), ("I.by_bytes", 4), ("I.by_type", 3), ("I.by_port", 2))

CASES = {
    "router": Case(router, router_packets, (("I.arrivals", 4), ("I.hits", 6))),
    "aggregate": Case(aggregate, aggregate_packets),
    "acl": Case(acl, acl_packets, least=31),
    "shapes": Case(shapes, shapes_packets),
    "stacks": Case(stacks, stacks_packets),
    "mirror": Case(mirror, mirror_packets, (("I.instances", 7), ("E.instances", 7))),
    "checks": Case(checks, checks_packets, _CHECKED),
    "meters": Case(meters, meters_packets, (("I.hits", 3),)),
}
