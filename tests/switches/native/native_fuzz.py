"""Hostile packets and control requests to a switch built with sanitizers.

    python tests/switches/native/native_fuzz.py [--minutes 10] [--seed N] [case ...]

The switch must survive all of them: a sanitizer's report ends its process, and this program then
fails with the packet that caused it. ``test_native_fuzz.py`` runs each program for a short time.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import struct
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from native_case import PROGRAMS
from native_cases import CASES

from testbed.protocols.tables import Exact, Lpm, Match, Range, TableEntry, Ternary
from testbed.switches.compile import PROGRAM
from testbed.switches.control import ControlError, Replica
from testbed.switches.native.program import Key, Program
from testbed.switches.native.reader import read
from testbed.switches.native.target import NativeSwitch

sys.path.append(str(Path(__file__).parents[1] / "ina"))
from ina_scene import ENTRIES
from ina_traffic import Traffic

NAMES = ("ina", *CASES)
_EDGES = (0, 1, 0x7F, 0x80, 0xFF)


def _seeds(name: str) -> list[bytes]:
    if name != "ina":
        return [packet for _, packet in CASES[name].packets()]
    return [frame for _, frame in Traffic(random.Random(0)).arrivals(500)]


def mangled(pick: random.Random, seeds: list[bytes]) -> bytes:
    """A changed copy of a known packet. Mostly its first bytes change, where the headers are."""
    packet = bytearray(pick.choice(seeds))
    for _ in range(pick.choice((0, 1, 1, 2, 4, 16))):
        if not packet:
            break
        at = pick.randrange(min(len(packet), pick.choice((16, 64, 64, 2048))))
        match pick.randrange(6):
            case 0:
                packet[at] ^= 1 << pick.randrange(8)
            case 1:
                packet[at] = pick.choice(_EDGES)
            case 2:
                packet[at] = pick.randrange(256)
            case 3:
                del packet[at : at + pick.randrange(1, 9)]
            case 4:
                packet[at:at] = packet[at : at + pick.randrange(1, 33)]
            case 5:
                other = pick.choice(seeds)
                packet[at:] = other[pick.randrange(len(other) + 1) :]
    if pick.random() < 0.2:
        del packet[pick.randrange(len(packet) + 1) :]
    if pick.random() < 0.05:
        packet += bytes(pick.choice((1, 64, 1500, 9000, 65535 - len(packet) % 65535)))
    return bytes(packet[:65792])


@dataclass
class Fuzzer:
    name: str
    generator: random.Random

    def __post_init__(self) -> None:
        path = PROGRAM if self.name == "ina" else PROGRAMS / f"{self.name}.json"
        self.program: Program = read(path)
        self.seeds = _seeds(self.name)
        self.switch = NativeSwitch.offline(path, sanitize=True)
        self.packets = 0

    def run(self, rounds: Iterable[object]) -> None:
        """Send 100 packets in each of ``rounds``."""
        with self.switch:
            if self.name == "ina":
                ENTRIES.install(self.switch)
            else:
                CASES[self.name].set_up(self.switch)
            for _ in rounds:
                for _ in range(self.generator.randrange(4)):
                    with contextlib.suppress(ControlError):
                        self.control()
                for _ in range(100):
                    self.send()

    def send(self) -> None:
        port, packet = self.number(9), mangled(self.generator, self.seeds)
        try:
            left = self.switch.process(port, packet)
        except ControlError as error:
            shown = f"{packet[:200].hex()}... of {len(packet)} bytes"
            raise AssertionError(f"{self.name}: port {port}: {shown}: {error}") from error
        assert all(len(frame) <= 65792 + 65536 for _, frame in left)
        self.packets += 1

    # Control

    def control(self) -> None:
        pick, program, switch = self.generator, self.program, self.switch
        match pick.randrange(8):
            case 0 | 1 if program.tables:
                table = pick.choice(program.tables)
                action = pick.choice(table.actions)
                params = tuple(self.number(p.width) for p in action.parameters)
                if pick.random() < 0.1:
                    switch.set_default(table.name, action.name, params)
                    return
                keys = tuple(self.match(key) for key in table.keys)
                entry = TableEntry(table.name, keys, action.name, params, pick.randrange(100))
                switch.insert(entry)
            case 2:
                count = pick.choice((0, 1, 2, 4, 64, 300))
                replicas = [Replica(pick.randrange(520), pick.randrange(16)) for _ in range(count)]
                switch.multicast_group(pick.choice((1, 2, 3, 7, 65535)), replicas)
            case 3:
                session = pick.choice((0, 1, 5, 6, 7, 32767))
                if pick.random() < 0.5:
                    switch.mirror_session(session, port=pick.randrange(520))
                else:
                    switch.mirror_session(session, group=pick.choice((1, 2, 3, 9)))
            case 4 if program.registers:
                register = pick.choice(program.registers)
                index = pick.choice((0, 1, register.size - 1, register.size, 1 << 31))
                switch.write_register(register.name, index, self.number(register.width))
                switch.read_register(register.name, index)
            case 5 if program.counters:
                counter = pick.choice(program.counters)
                switch.read_counter(counter.name, pick.choice((0, 1, counter.size, 1 << 31)))
            case 6 if program.meters:
                rates = (pick.random() * 1e6, pick.randrange(5)), (1e6, pick.randrange(5000))
                switch.meter_rates(pick.choice(program.meters).name, pick.randrange(9), *rates)
            case 7:  # not a valid request
                operation = pick.choice(b"IDGRWZCEMPSX")
                switch._request(struct.pack("=B", operation) + pick.randbytes(pick.randrange(40)))

    def number(self, width: int) -> int:
        """A number of this width: a random one, one at the limits, or one from a packet."""
        pick = self.generator
        some = pick.choice(self.seeds)
        at = pick.randrange(len(some) + 1)
        chosen = pick.choice(
            (
                pick.getrandbits(width),
                pick.choice((0, 1, 2, 3, 7, (1 << width) - 1, 1 << width - 1)),
                int.from_bytes(some[at : at + -(-width // 8)], "big"),
            )
        )
        return chosen & (1 << width) - 1

    def match(self, key: Key) -> Match:
        value, other = self.number(key.width), self.number(key.width)
        match key.kind:
            case "lpm":
                return Lpm(value, self.generator.randrange(key.width + 1))
            case "ternary":
                return Ternary(value, other)
            case "range":
                return Range(min(value, other), max(value, other))
            case _:
                return Exact(value)


def _lasting(seconds: float) -> Iterator[None]:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        yield


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=time.time_ns())
    parser.add_argument("cases", nargs="*", metavar="case", help=f"of {', '.join(NAMES)}")
    options = parser.parse_args()
    names = options.cases or NAMES
    if unknown := set(names) - set(NAMES):
        parser.error(f"no case {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    print(f"seed {options.seed}")
    for name in names:
        fuzzer = Fuzzer(name, random.Random(f"{options.seed} {name}"))
        fuzzer.run(_lasting(options.minutes * 60 / len(names)))
        print(f"{name}: {fuzzer.packets:,} packets survived", flush=True)


if __name__ == "__main__":
    main()
