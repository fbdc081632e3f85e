"""What a case is: a program of our own, set up and given packets."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from testbed.switches.control import Control

PROGRAMS = Path(__file__).parent / "programs"

PORTS = (1, 2, 3)  # that have an interface; what is sent elsewhere is lost

Packet = tuple[int, bytes]  # port and bytes


@dataclass(frozen=True)
class Case:
    """``packets`` are the same at every call. ``counters`` are read at the end, each so many.

    Of packets shorter than ``least`` bytes the program reads headers that are not there, which P4
    leaves undefined: BMv2 finds an earlier packet's there, the native switch zeros.
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
    """Of a program's source; it ties what was recorded to what was compiled."""
    return hashlib.sha256((PROGRAMS / f"{name}.p4").read_bytes()).hexdigest()


def address(text: str) -> int:
    return int.from_bytes(bytes(map(int, text.split("."))), "big")
