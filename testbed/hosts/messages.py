"""Messages between ranks over their streams, and their form on the wire.

A message is a header (unit: 4 bytes, kind: 2, chunk: 2, length: 4) in network byte order, then
``length`` bytes of int32 in the hosts' byte order.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

Values: TypeAlias = npt.NDArray[np.int32]

HEADER = struct.Struct("!IHHI")


class Chunk(NamedTuple):
    """A chunk of a unit: a gradient, or a sum of gradients. ``values``: int32[elements], may be
    empty."""

    unit: int
    chunk: int
    values: Values


class Answer(NamedTuple):
    """A chunk's parameters, and how many updates of each worker they contain."""

    unit: int
    chunk: int
    values: Values
    counts: Sequence[int]


class Turn(NamedTuple):
    """The receiver may push one iteration's gradient to the sender."""


Message: TypeAlias = Chunk | Answer | Turn


def encode(message: Message) -> bytes:
    """The bytes of ``message``; values are copied."""
    if isinstance(message, Chunk):
        unit, chunk, values = message
        return HEADER.pack(unit, 0, chunk, values.nbytes) + values.tobytes()
    if isinstance(message, Answer):
        unit, chunk, values, numbers = message
        counts = np.array([len(numbers), *numbers], np.int32)
        length = counts.nbytes + values.nbytes
        return HEADER.pack(unit, 1, chunk, length) + counts.tobytes() + values.tobytes()
    return HEADER.pack(0, 2, 0, 0)


def size(message: Message, elements: int) -> int:
    """The length in bytes that `encode` would give ``message`` with this many values."""
    counts = 1 + len(message.counts) if isinstance(message, Answer) else 0
    return HEADER.size + 4 * (counts + elements)


def decode(unit: int, kind: int, chunk: int, payload: bytearray) -> Message:
    """The message with this header; its values share the memory of ``payload``."""
    values = np.frombuffer(payload, np.int32)
    if kind == 0:
        return Chunk(unit, chunk, values)
    if kind == 1:
        workers = int(values[0])
        return Answer(unit, chunk, values[1 + workers :], values[1 : 1 + workers].tolist())
    return Turn()
