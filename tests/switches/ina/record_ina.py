"""Sends the traffic of ``ina_traffic.py`` to BMv2, and records its answers.

    sudo python tests/switches/ina/record_ina.py

The files ``recorded/*.npz`` replace BMv2 where it is not installed. They have the first bytes and a
digest of every packet that left. The packets that arrived are generated again from the seed.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import numpy as np
from ina_scene import ADDRESSING, ENTRIES, FABRIC, JOBS, PROTOCOLS, SWITCH, counted
from ina_traffic import Arrival, Traffic

from testbed import wire
from testbed.protocols import TreeProtocol
from testbed.protocols.events import Event
from testbed.switches.compile import COMPILER, PROGRAM
from testbed.switches.frames import LINK, UDP

RECORDED = Path(__file__).parent / "recorded"
PACKETS, SEED = 400, 2025
SETS: dict[str, tuple[TreeProtocol, ...]] = {style.name: (style,) for style in PROTOCOLS}
SETS["together"] = PROTOCOLS
HEAD = LINK.itemsize + UDP.itemsize + 12 + wire.HEADER_BYTES

LEFT = np.dtype(
    [("step", "u2"), ("port", "u2"), ("size", "u2"), ("head", "u1", HEAD), ("digest", "S8")]
)
"""A packet that left: the number of the arrival before it, port, size, first bytes, digest."""


def arrivals(name: str) -> list[Arrival]:
    return list(Traffic(Random(SEED), SETS[name]).arrivals(PACKETS))


def digest(found: list[Arrival]) -> str:
    whole = hashlib.sha256()
    for port, frame in found:
        whole.update(f"{port} {len(frame)} ".encode() + frame)
    return whole.hexdigest()


def left(name: str, process: Callable[[int, bytes], list[Arrival]]) -> np.ndarray:
    """All packets that ``process`` returns for the arrivals, as ``LEFT``."""

    def rows() -> Iterator[tuple[int, int, int, np.ndarray, bytes]]:
        for step, (port, frame) in enumerate(arrivals(name)):
            for out, packet in sorted(process(port, frame)):
                head = np.frombuffer(packet[:HEAD].ljust(HEAD, b"\0"), np.uint8)
                print_of_it = hashlib.sha256(packet).hexdigest()[:8].encode()
                yield step, out, len(packet), head, print_of_it

    return np.array(list(rows()), LEFT)


def events(found: dict[tuple[int, Event], int]) -> np.ndarray:
    """The table of counts by job and event."""
    table = np.zeros((max(JOBS) + 1, len(Event)), np.uint32)
    for (job, event), count in found.items():
        table[job, event] = count
    return table


def _version(tool: str) -> str:
    done = subprocess.run([tool, "--version"], check=True, capture_output=True, text=True)
    return re.findall(r"\d+\.[\d.]+\d", done.stdout + done.stderr)[0]


def record(name: str) -> None:
    from testbed.switches.wired import wired_bmv2

    with (
        tempfile.TemporaryDirectory() as folder,
        wired_bmv2(PROGRAM, Path(folder) / "log", SWITCH, FABRIC, ADDRESSING) as bmv2,
    ):
        ENTRIES.install(bmv2)
        packets = left(name, bmv2.process)
        counts = events(counted(bmv2))
    by = f"simple_switch {_version('simple_switch')}, {COMPILER} {_version(COMPILER)}"
    RECORDED.mkdir(exist_ok=True)
    path = RECORDED / f"{name}.npz"
    np.savez_compressed(path, by=by, arrived=digest(arrivals(name)), left=packets, events=counts)
    print(f"{path}: {len(packets)} packets left, {path.stat().st_size} bytes")


if __name__ == "__main__":
    for each in SETS:
        record(each)
