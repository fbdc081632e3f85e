"""The part of Protocol Buffers' wire encoding that execution traces need.

A message is a sequence of fields, each a number with a wire type and a value: a variable-length
integer (0), 8 bytes (1), length-delimited bytes (2) or 4 bytes (5). In a file, each message follows
its length. See https://protobuf.dev/programming-guides/encoding.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_LONGEST_VARINT = 10


def varint(value: int) -> bytes:
    """A whole number from 0 to 2^64 - 1, seven bits per byte, least significant first."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number: int, value: int | str | bytes) -> bytes:
    """A field: a whole number as varint, text as UTF-8, bytes (messages included) as they are."""
    if isinstance(value, int):
        return varint(number << 3 | _VARINT) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | _BYTES) + varint(len(data)) + data


def packed(number: int, values: Iterable[int]) -> bytes:
    """A repeated field of whole numbers, or nothing if there are none."""
    data = b"".join(varint(value) for value in values)
    return field(number, data) if data else b""


def fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Number and value of each field. Raises ValueError if the message is truncated or invalid."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        number, kind = key >> 3, key & 7
        if kind == _VARINT:
            value, at = _varint(message, at)
            yield number, value
            continue
        if kind == _BYTES:
            length, at = _varint(message, at)
        elif kind in (_FIXED64, _FIXED32):
            length = 8 if kind == _FIXED64 else 4
        else:
            raise ValueError(f"wire type {kind} does not exist in Protocol Buffers 3")
        if number < 1 or at + length > len(message):
            raise ValueError("truncated, or not a message of Protocol Buffers")
        yield number, message[at : at + length]
        at += length


def whole_numbers(value: int | bytes) -> list[int]:
    """The numbers in one field of a repeated whole number, single or packed."""
    if isinstance(value, int):
        return [value]
    numbers, at = [], 0
    while at < len(value):
        number, at = _varint(value, at)
        numbers.append(number)
    return numbers


def delimited(messages: Iterable[bytes]) -> bytes:
    """Messages one after another, each preceded by its length."""
    return b"".join(varint(len(message)) + message for message in messages)


def undelimited(data: bytes) -> Iterator[bytes]:
    """The messages of such a file. Raises ValueError if it is truncated."""
    at = 0
    while at < len(data):
        length, at = _varint(data, at)
        if at + length > len(data):
            raise ValueError(f"ends within a message of {length} bytes")
        if not length and at > 1:  # only metadata may be empty
            raise ValueError(f"has an empty message at byte {at}")
        yield data[at : at + length]
        at += length


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """The number at ``at``, and where it ends."""
    value = 0
    for count, byte in enumerate(data[at : at + _LONGEST_VARINT]):
        value |= (byte & 127) << 7 * count
        if byte < 128:
            return value, at + count + 1
    raise ValueError("ends within a number, or a number longer than 64 bits")
