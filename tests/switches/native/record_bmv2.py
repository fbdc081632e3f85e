"""Compiles the programs, sends the cases' packets to BMv2, and records its answers.

    sudo python tests/switches/native/record_bmv2.py [case ...]

The files ``programs/*.recorded.json`` replace BMv2 where it is not installed.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from native_case import PORTS, PROGRAMS, Packet, fingerprint
from native_cases import CASES

from testbed.switches.bmv2 import Bmv2Switch

sys.path.append(str(Path(__file__).parents[2]))
from patience import awaited

# Seconds to wait for a packet's first and next output: BMv2's threads may wait for a processor.
_NO_ANSWER, _NO_MORE = 1.5, 0.3
_ALL = 0x0003
_NAMESPACE = f"r{os.getpid()}"
INSIDE = ("ip", "netns", "exec", _NAMESPACE)
"""Runs a command in the namespace of the switch, whose control port no other switch has there."""


def _command(text: str, folder: Path | None = None) -> str:
    run = subprocess.run(text.split(), check=True, capture_output=True, text=True, cwd=folder)
    return run.stdout + run.stderr  # p4c prints its version on standard error


def link(port: int) -> str:
    """The switch's end of a port's veth pair, which no other process has."""
    return f"r{os.getpid()}-{port}"


def _end(port: int) -> str:
    return f"e{os.getpid()}-{port}"


def _await_up(show: str) -> None:
    """The kernel drops what a link sends before its state is UP."""
    awaited(lambda: "state UP" in _command(show))


@contextlib.contextmanager
def ends() -> Iterator[dict[int, socket.socket]]:
    """A network namespace with ``link(port)`` for each port. Yields sockets at the links' other
    ends."""
    sockets: dict[int, socket.socket] = {}
    _command(f"ip netns add {_NAMESPACE}")
    try:
        # The switch and its client meet on the loopback interface.
        _command(f"ip -n {_NAMESPACE} link set lo up")
        for port in PORTS:
            _command(
                f"ip link add {_end(port)} type veth peer name {link(port)} netns {_NAMESPACE}"
            )
            both = ((f"{' '.join(INSIDE)} ", link(port)), ("", _end(port)))
            for inside, name in both:
                _command(f"{inside}sysctl -qw net.ipv6.conf.{name}.disable_ipv6=1")
                _command(f"{inside}ip link set {name} up")
            for inside, name in both:
                _await_up(f"{inside}ip link show {name}")
            sockets[port] = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
            sockets[port].bind((_end(port), _ALL))
        yield sockets
    finally:
        for port in PORTS:
            if port in sockets:
                sockets[port].close()
            # A namespace's links outlive it for a while.
            subprocess.run(["ip", "link", "del", _end(port)], check=False, capture_output=True)
        _command(f"ip netns del {_NAMESPACE}")


def answers(
    sockets: dict[int, socket.socket], port: int, packet: bytes, expected: int | None = None
) -> list[Packet]:
    """The packets that come out. If ``expected`` is given, wait only for this number of packets. An
    extra packet then appears among the answers to the next packet."""
    sockets[port].send(packet)
    left: list[Packet] = []
    by_file = {s.fileno(): number for number, s in sockets.items()}
    while True:
        patience = _NO_MORE if left else _NO_ANSWER
        if expected is not None:
            patience = 0.005 if len(left) >= expected else 3
        ready = select.select(by_file, [], [], patience)[0]
        if not ready:
            return sorted(left)
        for file in ready:
            data, address = sockets[by_file[file]].recvfrom(65536)
            if address[2] != socket.PACKET_OUTGOING:
                left.append((by_file[file], data))


def record(name: str) -> None:
    case = CASES[name]
    program = PROGRAMS / f"{name}.json"
    _command(f"p4c-bm2-ss -o {name}.json {name}.p4", PROGRAMS)
    with ends() as sockets, tempfile.TemporaryDirectory() as folder:
        switch = Bmv2Switch(program, Path(folder) / "log")
        switch.start({port: link(port) for port in PORTS}, INSIDE)
        try:
            case.set_up(switch)
            steps = [
                {
                    "in": [port, packet.hex()],
                    "out": [[out, data.hex()] for out, data in answers(sockets, port, packet)],
                }
                for port, packet in case.packets()
            ]
            counters = case.count(switch)
        finally:
            switch.close()
    compiler = _command("p4c-bm2-ss --version").split()
    document = {
        "by": f"simple_switch {_command('simple_switch --version').split()[0]}",
        "compiled by": f"p4c-bm2-ss {compiler[compiler.index('Version') + 1]}",
        "source": fingerprint(name),
        "steps": steps,
        "counters": counters,
    }
    path = PROGRAMS / f"{name}.recorded.json"
    path.write_text(json.dumps(document, indent=0) + "\n")
    print(f"{path}: {len(steps)} packets")


if __name__ == "__main__":
    for case_name in sys.argv[1:] or CASES:
        record(case_name)
