"""A case: a test program, its configuration and its packets."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from testbed.switches.control import Control

PROGRAMS = Path(__file__).parent / "programs"

PORTS = (1, 2, 3)  # those with an interface; packets to others are lost

Packet = tuple[int, bytes]  # port and bytes


@dataclass(frozen=True)
class Case:
    """``packets`` returns the same packets at every call. ``counters``, with their sizes, are read
    at the end.

    In packets shorter than ``least`` bytes, the program reads headers that do not exist. In P4 this
    is undefined: BMv2 reads those of an earlier packet, the native switch reads zeros.
    """

    set_up: Callable[[Control], None]
    packets: Callable[[], list[Packet]]
    counters: tuple[tuple[str, int], ...] = ()
    least: int = 14

    def count(self, switch: Control) -> dict[str, list[list[int]]]:
        return {
            name: [list(switch.read_counter(name, n)) for n in range(size)]
            for name, size in self.counters
        }


def fingerprint(name: str) -> str:
    """The digest of a program's source, by which a recording shows if it is stale."""
    return hashlib.sha256((PROGRAMS / f"{name}.p4").read_bytes()).hexdigest()
