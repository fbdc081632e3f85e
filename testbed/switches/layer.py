"""The INA packet as a scapy layer, made from the same fields as the hosts' numpy type.

For captures, tests and hand-made packets; a run does not need it. Importing this module binds the
layer to its UDP port.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scapy.fields import (
    ByteEnumField,
    ByteField,
    ConditionalField,
    Field,
    FlagsField,
    IntField,
    LongField,
    ShortField,
    ThreeBytesField,
)
from scapy.layers.inet import UDP
from scapy.packet import Packet, Raw, bind_layers

from testbed import wire

_KINDS = {
    wire.KIND_DATA: "data",
    wire.KIND_RESULT: "result",
    wire.KIND_RECEIPT: "receipt",
    wire.KIND_ACK: "ack",
}
_FLAGS = {
    wire.FLAG_RESEND: "resend",
    wire.FLAG_COLLISION: "collision",
    wire.FLAG_OVERFLOW: "overflow",
    wire.FLAG_ECN: "ecn",
    wire.FLAG_FLOATS: "floats",
    wire.FLAG_CONTENDED: "contended",
    0x40: "priority2",
    0x80: "priority4",
}
_OPCODES = {
    wire.SEND_FIRST: "first",
    wire.SEND_MIDDLE: "middle",
    wire.SEND_LAST: "last",
    wire.SEND_ONLY: "only",
    wire.ACKNOWLEDGE: "acknowledge",
}
_OF_WIDTH = {8: ByteField, 16: ShortField, 32: IntField, 64: LongField}
_VALUES = np.dtype(wire.PACKET)["values"].base
_SIZES = " or ".join(map(str, (wire.FEW, *wire.SIZES)))


def are_values(data: bytes) -> bool:
    """Whether ``data`` has the length of a packet's values."""
    return len(data) in (_VALUES.itemsize * size for size in (wire.FEW, *wire.SIZES))


class _Values(Field):  # type: ignore[type-arg]
    """The values, a list of int; scapy's own field lists take a hundred at most."""

    islist = 1

    def addfield(self, pkt: Any, s: bytes, val: Any) -> bytes:
        if len(val) not in (wire.FEW, *wire.SIZES):
            raise ValueError(f"found {len(val)} values, wanted {_SIZES}")
        return s + np.asarray(val, _VALUES).tobytes()

    def getfield(self, pkt: Any, s: bytes) -> tuple[bytes, list[int]]:
        if not are_values(s):
            raise ValueError(f"found {len(s)} bytes of values, wanted {_SIZES} values")
        return b"", np.frombuffer(s, _VALUES).tolist()


def _field(name: str, bits: int) -> Any:
    if name == "kind":
        return ByteEnumField(name, wire.KIND_DATA, _KINDS)
    if name == "flags":
        return FlagsField(name, 0, bits, _FLAGS)
    return _OF_WIDTH[bits](name, 0)


class INA(Packet):
    """A fragment's header and, if it has any, its values, signed integers of 32 bits."""

    name = "INA"
    fields_desc = [  # noqa: RUF012  scapy's convention
        *(_field(name, bits) for name, bits in wire.FIELDS),
        ConditionalField(
            _Values("values", [0] * wire.VALUES),
            lambda packet: packet.kind in (wire.KIND_DATA, wire.KIND_RESULT),
        ),
    ]


class BTH(Packet):
    """Base transport header of RoCEv2; the first packet of a message continues as INA."""

    name = "BTH"
    fields_desc = [  # noqa: RUF012
        ByteEnumField("opcode", 0, _OPCODES),
        ByteField("flags", 0),
        ShortField("partition", 0xFFFF),
        FlagsField("reserved", 0, 8, {1: "sum"}),
        ThreeBytesField("connection", 0),
        ByteField("acknowledge", 0),
        ThreeBytesField("sequence", 0),
    ]

    def guess_payload_class(self, payload: bytes) -> Any:
        if self.opcode in (wire.SEND_FIRST, wire.SEND_ONLY):
            return INA
        return AETH if self.opcode == wire.ACKNOWLEDGE else Raw


class AETH(Packet):
    """The header of an acknowledgement; ``nak`` asks for the packet that its BTH names."""

    name = "AETH"
    fields_desc = [  # noqa: RUF012
        ByteEnumField("syndrome", 0, {0: "ack", wire.NAK_SEQUENCE: "nak"}),
        ThreeBytesField("messages", 0),
    ]


bind_layers(UDP, INA, dport=wire.PORT)
bind_layers(UDP, BTH, dport=wire.ROCE_PORT)
