"""The INA packet as hosts see it: a UDP payload. A test compares it with ``p4/headers.p4``."""

from __future__ import annotations

import numpy as np

PORT = 0xBEE0
"""UDP port of every INA endpoint, source and destination."""

VALUES = 256
"""int32 values in one packet (a fragment), unless a fabric says otherwise."""

SIZES = (64, VALUES, 1024)
"""How many values a packet may have; ``p4/build`` has a program for each."""

KIND_DATA, KIND_RESULT, KIND_RECEIPT, KIND_ACK = 1, 2, 3, 4
FLAG_RESEND, FLAG_COLLISION, FLAG_OVERFLOW, FLAG_ECN, FLAG_FLOATS = 0x01, 0x02, 0x04, 0x08, 0x10

ROCE_PORT = 4791
"""UDP port of RoCEv2, which NetReduce's connections use."""

CHUNKS_PORT = 0xBEE1
"""First of the TCP ports on which ranks take chunks from one another."""

SEND_FIRST, SEND_MIDDLE, SEND_LAST, SEND_ONLY, ACKNOWLEDGE = 0x00, 0x01, 0x02, 0x04, 0x11
"""Opcodes of RoCEv2's reliable connections (InfiniBand specification, 9.2)."""

NAK_SEQUENCE = 0x60
"""Syndrome of an acknowledgement that asks for a packet; 0 acknowledges received packets."""

LIVE_MESSAGES = 4
"""Messages of one connection that a switch can distinguish."""

SLOTS = 4096
"""Aggregators of the compiled program."""

MAX_TREES = 256
"""The most trees that a switch can know, over all jobs of a run."""

MAX_WORKERS = 64
"""Width of the bitmap of contributors, in bits."""

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

HEADER = np.dtype([(name, f">u{bits // 8}") for name, bits in FIELDS])
PACKET = np.dtype([*HEADER.descr, ("values", ">i4", (VALUES,))])


def connection(tree: int, rank: int) -> int:
    """Number (queue pair) of the connection on which ``rank`` sends to the next rank of a tree."""
    return tree * MAX_WORKERS + rank
