"""The native switch's cost of a packet by stage, and what limits its rate.

    sudo .venv/bin/python -m benchmarks.stages

Prints Markdown for p4/PERFORMANCE.md. Instructions are counted by callgrind (Debian: valgrind) in
a build in which each stage is a separate function. Other load on the machine changes the times, but
not the number of instructions.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from benchmarks.one_switch import (
    GROUP,
    HOST,
    HOST_MAC,
    PORT,
    SWITCH,
    SWITCH_MAC,
    TREE,
    OneSwitch,
    ina_entries,
)
from benchmarks.programs import ina
from testbed import wire
from testbed.compiler import compiled
from testbed.protocols import TreeProtocol, on_trees
from testbed.protocols.atp.protocol import PROTOCOL as ATP
from testbed.protocols.netreduce.protocol import PROTOCOL as NETREDUCE
from testbed.protocols.switchml.protocol import PROTOCOL as SWITCHML
from testbed.switches.control import Replica
from testbed.switches.native import build
from testbed.switches.native.emit import emit
from testbed.switches.native.reader import read
from testbed.switches.native.target import NativeSwitch

WORKERS, FRAGMENTS, VALUES = 4, 500, 256
SECONDS = 2.0
STAGES = {
    "parser": "parse",
    "ingress: tables, style, record": "ingress",
    "lanes: read, add, write": "lanes",
    "egress": "egress",
    "IPv4 checksum": "update_checksums",
    "deparser": "deparse",
}
_LANES = re.compile(r"action_\d+_InaIngress_aggregation_lanes_(?:read|write|add|load)")
_FUNCTION = re.compile(r"^INLINE (\w+ (\w+)\(struct state)", re.MULTILINE)


def separate_stages(source: str) -> str:
    """Make stages and lane actions separate functions, so that callgrind can tell them apart."""

    def apart(found: re.Match[str]) -> str:
        name = found[2]
        if name in STAGES.values() or _LANES.fullmatch(name):
            return f"static __attribute__((noinline)) {found[1]}"
        return found[0]

    return _FUNCTION.sub(apart, source)


def frames(style: TreeProtocol) -> Iterator[bytes]:
    """Complete fragments of all workers; for ATP also the results that free the slots."""
    values = np.random.default_rng(1).integers(-(2**20), 2**20, wire.VALUES, dtype=np.int32)
    packet = np.zeros(1, wire.PACKET)
    packet["tree"], packet["values"] = TREE, values
    ip = Ether(dst=SWITCH_MAC, src=HOST_MAC) / IP(src=HOST, dst=SWITCH)
    port = wire.ROCE_PORT if style is NETREDUCE else wire.PORT
    kinds = [(wire.KIND_DATA, 1 << rank) for rank in range(WORKERS)]
    if style is ATP:
        kinds.append((wire.KIND_RESULT, (1 << WORKERS) - 1))
    for fragment in range(FRAGMENTS):
        for rank, (kind, bitmap) in enumerate(kinds):
            packet["kind"], packet["bitmap"], packet["sequence"] = kind, bitmap, fragment
            packet["slot"] = fragment % 64
            payload = packet.tobytes()
            if style is NETREDUCE:  # messages of one packet
                packet["next_slot"] = fragment % wire.LIVE_MESSAGES << 24 | 1
                bth = bytes([wire.SEND_ONLY, 0, 255, 255, 0])
                bth += wire.connection(TREE, rank).to_bytes(3, "big")
                payload = bth + bytes(1) + fragment.to_bytes(3, "big") + packet.tobytes()
            yield bytes(ip / UDP(sport=port, dport=port, chksum=0) / payload)


class Counted(NativeSwitch):
    """A switch under callgrind, which writes to ``counts``."""

    def __init__(self, program: Path, counts: Path) -> None:
        super().__init__(program)
        sources = {path.name: path.read_text() for path in sorted(build._RUNTIME.iterdir())}
        sources["switch.c"] = separate_stages(emit(read(program)))
        self._executable = compiled("stages", sources, [*build._FLAGS, "-g"])
        options = ["--tool=callgrind", f"--callgrind-out-file={counts}"]
        self._launch(["valgrind", "-q", *options, "--toggle-collect=process"], [], 0, 1, 0.0)


def instructions(style: TreeProtocol) -> dict[str, float]:
    """Instructions per incoming packet, by stage. The egress and later stages run once per copy."""
    with tempfile.TemporaryDirectory() as folder:
        counts, packets = Path(folder) / "counts", 0
        with Counted(ina(VALUES), counts) as switch:
            switch.multicast_group(GROUP, [Replica(PORT, 1)])
            for entry in ina_entries(style, WORKERS):
                switch.insert(entry)
            for frame in frames(style):
                switch.process(PORT, frame)
                packets += 1
        told = subprocess.run(
            ["callgrind_annotate", "--inclusive=yes", "--threshold=100", str(counts)],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    found: dict[str, float] = {}
    for line in told.splitlines():
        if match := re.match(r"\s*([\d,]+) .*switch\.c:(\w+)|\s*([\d,]+) .*\.h:(process)\b", line):
            name = match[2] or match[4]
            name = "lanes" if _LANES.fullmatch(name) else name
            count = int((match[1] or match[3]).replace(",", ""))
            found[name] = found.get(name, 0) + count / packets
    found["ingress"] -= found.get("lanes", 0)
    return found


def print_instructions() -> None:
    styles = tuple(on_trees().values())
    table = {style: instructions(style) for style in styles}
    print("| instructions a packet in | " + " | ".join(style.name for style in styles) + " |")
    print("| --- |" + " --- |" * len(styles))
    for title, name in STAGES.items():
        print(f"| {title} | " + " | ".join(f"{table[s].get(name, 0):.0f}" for s in styles) + " |")
    rest = {
        s: table[s]["process"] - sum(table[s].get(n, 0) for n in STAGES.values()) for s in styles
    }
    print("| copies, output | " + " | ".join(f"{rest[s]:.0f}" for s in styles) + " |")
    print("| all | " + " | ".join(f"{table[s]['process']:.0f}" for s in styles) + " |")


def print_way() -> None:
    """The time that a packet takes: each row adds a step to the row above."""
    program = ina(VALUES)
    print("| | packets/s | generator, µs/packet | switch, µs/packet | of that in the kernel |")
    print("| --- | --- | --- | --- | --- |")
    cases = {
        "link and packet ring: the switch knows no tree, and drops": (False, 4, 0),
        "sums, a result for every 64th packet, nothing awaited": (True, 64, 0),
        "sums, a result for every 4th packet, nothing awaited": (True, 4, 0),
        "sums, results awaited by a window of 64": (True, 4, 64),
    }
    for title, (told, workers, window) in cases.items():
        with OneSwitch("native", program, SWITCHML, workers, told=told) as switch:
            found = switch.load(VALUES, window, 1, SECONDS)
        print(
            f"| {title} | {found.rate:,.0f} | {found.load_us:.2f} | {found.switch_us:.2f} "
            f"| {found.kernel_share:.0%} |"
        )


def print_memory() -> None:
    """The time to read and write a packet's values once, in memory as large as a packet ring."""
    rounds = 50
    ring = np.zeros((4096, wire.VALUES), np.int32)
    other = np.empty_like(ring)
    start = time.perf_counter()
    for _ in range(rounds):
        np.copyto(other, ring)
    each = (time.perf_counter() - start) / rounds / len(ring)
    print(f"\nA copy of {wire.VALUES} values, memory to memory: {each * 1e9:.0f} ns.")


def main() -> None:
    print_instructions()
    print()
    print_way()
    print_memory()


if __name__ == "__main__":
    main()
