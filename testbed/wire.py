"""The INA packet as hosts see it: a UDP payload. A test compares it with ``p4/headers.p4``."""

from __future__ import annotations

PORT = 0xBEE0
"""UDP port of every INA endpoint, source and destination."""

VALUES = 256
"""int32 values in one packet (a fragment), unless a fabric says otherwise."""

SIZES = (64, VALUES, 1024)
"""How many values a packet may have; ``p4/build`` has a program for each."""

FEW = 8
"""In virtual time a packet carries only this many values, and counts as one of a size in `SIZES`.
``p4/build`` has a program for it, too."""

KIND_DATA, KIND_RESULT, KIND_RECEIPT, KIND_ACK = 1, 2, 3, 4
FLAG_RESEND, FLAG_COLLISION, FLAG_OVERFLOW, FLAG_ECN, FLAG_FLOATS = 0x01, 0x02, 0x04, 0x08, 0x10
FLAG_CONTENDED = 0x20
"""A2TP: others wanted the slot of this fragment."""

PRIORITY_SHIFT, MOST_PRIORITY = 5, 7
"""ESA: the upper bits of the flags are a priority from 1 on; 0 is none."""

ROCE_PORT = 4791
"""UDP port of RoCEv2, which NetReduce's connections use."""

CHUNKS_PORT = 0xBEE1
"""The first of the TCP ports on which ranks receive chunks from one another."""

SEND_FIRST, SEND_MIDDLE, SEND_LAST, SEND_ONLY, ACKNOWLEDGE = 0x00, 0x01, 0x02, 0x04, 0x11
"""Opcodes of RoCEv2's reliable connections (InfiniBand specification, 9.2)."""

NAK_SEQUENCE = 0x60
"""Syndrome of an acknowledgement that asks for a packet; 0 acknowledges received packets."""

LIVE_MESSAGES = 4
"""Messages of one connection that a switch can distinguish."""

SLOTS = 4096
"""Slots (aggregators) of the compiled program."""

MAX_TREES = 256
"""The most trees that a switch can know."""

MAX_NUMBERS = 1 << 14
"""The most trees of a run: connections have 24 bits, for tree and rank."""

BITMAP = 64
"""Width of the bitmap of contributions, in bits: the most children of a switch on a tree."""

MAX_RANKS = 1024
"""The most ranks on a ring of connections."""

FIELDS = (
    ("kind", 8),
    ("flags", 8),
    ("tree", 16),
    ("sequence", 32),
    ("slot", 32),
    ("next_slot", 32),
    ("bitmap", 64),
)
"""Header fields and their widths in bits, in wire order."""

HEADER_BYTES = sum(bits for _, bits in FIELDS) // 8

HEADER = [(name, f">u{bits // 8}") for name, bits in FIELDS]
PACKET = [*HEADER, ("values", ">i4", (VALUES,))]
"""The header and the packet as descriptions of numpy dtypes: ``np.zeros(1, wire.HEADER)``."""


def connection(tree: int, rank: int) -> int:
    """Number (queue pair) of the connection on which ``rank`` sends to the next rank of a tree."""
    return tree * MAX_RANKS + rank
