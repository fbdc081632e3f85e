"""The events of a packet in a switch, with the numbers of ``p4/headers.p4``."""

from __future__ import annotations

from enum import IntEnum


class Event(IntEnum):
    """What a switch did with a packet."""

    STORED = 0
    ADDED = 1
    COMPLETED = 2
    DUPLICATE = 3
    COLLISION = 4
    FLUSHED = 5
    PASSED = 6
    FREED = 7
    RETURNED = 8
    REFUSED = 9
    EVICTED = 10
