"""Packets on a link as the switch parses them; their fields can be read and changed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from testbed import wire


def _header(fields: str) -> np.dtype:
    """A header's dtype, from ``name:type`` for each field in wire order."""
    pairs = (field.split(":") for field in fields.split())
    return np.dtype([(name, kind) for name, kind in pairs])


LINK = _header(
    "to_mac:V6 from_mac:V6 type:>u2"
    " version_ihl:u1 tos:u1 length:>u2 identification:>u2 fragment:>u2"
    " ttl:u1 protocol:u1 checksum:>u2 src:>u4 dst:>u4"
)
"""Ethernet and IPv4 without options."""

UDP = _header("sport:>u2 dport:>u2 length:>u2 checksum:>u2")

BTH = _header(
    "opcode:u1 flags:u1 partition:>u2 reserved:u1 connection:3u1 acknowledge:u1 sequence:3u1"
)
"""RoCEv2's base transport header."""

FIRST, MIDDLE, LAST, ONLY = 0, 1, 2, 4
IS_SUM = 0x01

IPV4, VERSION_AND_LENGTH, PROTOCOL_UDP, OFFSET = 0x0800, 0x45, 17, 0x1FFF
TIME_TO_LIVE = 64
"""Of a packet that a host or a switch sends in its own name."""


@dataclass
class Packet:
    """Headers are arrays of one element, None if the packet has none; ``rest`` follows them."""

    link: np.ndarray
    udp: np.ndarray | None = None
    bth: np.ndarray | None = None
    ina: np.ndarray | None = None
    values: np.ndarray | None = None
    rest: bytes = b""

    def __bytes__(self) -> bytes:
        headers = (self.link, self.udp, self.bth, self.ina, self.values)
        return b"".join(each.tobytes() for each in headers if each is not None) + self.rest

    def copy(self) -> Packet:
        parsed = parse(bytes(self))
        assert parsed is not None
        return parsed


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.rest = data

    def take(self, kind: np.typing.DTypeLike, count: int = 1) -> np.ndarray | None:
        """The next elements; None, without taking any, if too few bytes are left."""
        size = np.dtype(kind).itemsize * count
        if len(self.rest) < size:
            return None
        taken, self.rest = self.rest[:size], self.rest[size:]
        return np.frombuffer(bytearray(taken), kind)


def parse(data: bytes, values: int = wire.VALUES) -> Packet | None:
    """A frame's headers; None if it is not IPv4."""
    reader = _Reader(data)
    link = reader.take(LINK)
    if link is None or link["type"][0] != IPV4:
        return None
    packet = Packet(link)
    plain = link["version_ihl"][0] == VERSION_AND_LENGTH and not link["fragment"][0] & OFFSET
    if plain and link["protocol"][0] == PROTOCOL_UDP:
        packet.udp = reader.take(UDP)
    if packet.udp is not None and packet.udp["dport"][0] == wire.PORT:
        packet.ina = reader.take(wire.HEADER)
        if packet.ina is not None and packet.ina["kind"][0] in (wire.KIND_DATA, wire.KIND_RESULT):
            packet.values = reader.take(np.dtype(">i4"), values)
    elif packet.udp is not None and packet.udp["dport"][0] == wire.ROCE_PORT:
        packet.bth = reader.take(BTH)
        opcode = None if packet.bth is None else packet.bth["opcode"][0]
        if opcode in (FIRST, ONLY):
            packet.ina = reader.take(wire.HEADER)
        if opcode in (MIDDLE, LAST) or packet.ina is not None:
            packet.values = reader.take(np.dtype(">i4"), values)
    packet.rest = reader.rest
    return packet


def number(field: np.ndarray) -> int:
    """The 24-bit number in the single element of ``field``."""
    return int.from_bytes(field[0].tobytes(), "big")


def set_number(field: np.ndarray, value: int) -> None:
    field[0] = list(value.to_bytes(3, "big"))


def set_checksum(link: np.ndarray) -> None:
    """Set IPv4's header checksum (RFC 791)."""
    link["checksum"] = 0
    total = int(np.frombuffer(link.tobytes()[14:], ">u2").sum())
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    link["checksum"] = 0xFFFF ^ total
