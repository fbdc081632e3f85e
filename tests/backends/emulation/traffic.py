"""Small fabrics, and traffic between their hosts."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median

import pytest
from patience import PATIENCE_S

from testbed.backends.emulation import targets
from testbed.backends.emulation.network import Network
from testbed.backends.emulation.switch_target import SwitchTarget
from testbed.switches.compile import PROGRAM
from testbed.topology.builders import leaf_spine
from testbed.topology.fabric import Fabric

TARGETS = ["native", pytest.param("bmv2", marks=pytest.mark.bmv2)]

RATE = 2.5e7
QUEUE = 256_000
PORT = 5001
WARM_UP_S = 0.4
WINDOWS, WINDOW_S = 11, 0.15
CLOSE = 0.03  # share of a link's rate
LENT = 0.03  # share of a processor; more may explain a rate that is not close

_RECEIVE = """
import socket, sys, time
kind, address, port, warm_up, windows, window = sys.argv[1:]
if kind == "tcp":
    listener = socket.create_server((address, int(port)))
    print("ready", flush=True)
    connection, _ = listener.accept()
else:
    connection = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    connection.bind((address, int(port)))
    print("ready", flush=True)
buffer = bytearray(1 << 18)
def drain(seconds):
    received, packets, start = 0, 0, time.monotonic()
    while (now := time.monotonic()) < start + seconds:
        received += connection.recv_into(buffer)
        packets += 1
    return received, packets, now - start
connection.recv_into(buffer)
drain(float(warm_up))
for _ in range(int(windows)):
    print(*drain(float(window)))
"""
_SEND = """
import socket, sys, time
kind, address, port, size, seconds = sys.argv[1:]
sender = socket.socket(socket.AF_INET, socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM)
# Less than a queue holds, so that the sender waits for its link; a burst does not.
SO_SNDBUFFORCE = 32
sender.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 1 << 17 if kind != "burst" else 1 << 24)
sender.connect((address, int(port)))
payload, end = bytes(int(size)), time.monotonic() + float(seconds)
try:
    while time.monotonic() < end:
        sender.send(payload)
except ConnectionError:
    pass
"""


def fabric(
    ina: Iterable[str] = (), racks: tuple[int, ...] = (2, 2), rate: float = RATE, spines: int = 2
) -> Fabric:
    return leaf_spine(spines, len(racks), racks, rate, rate, QUEUE).with_ina(ina)


def switches(
    target: str, names: Iterable[str], folder: Path, program: Path = PROGRAM
) -> dict[str, SwitchTarget]:
    return {name: targets.make(target, folder / f"{name}.log", program) for name in names}


def transfer(network: Network, source: str, to: str, kind: str, size: int) -> tuple[float, float]:
    """Payload bytes and receive calls per second between two hosts, for ``size`` bytes per send.

    They are medians: if the machine stalls for a moment, some windows have too few bytes and the
    next ones too many.
    """
    address = network.addressing.ip(to)
    receiver = subprocess.Popen(
        [*network.inside(to), sys.executable, "-c", _RECEIVE, kind, address, str(PORT),
         str(WARM_UP_S), str(WINDOWS), str(WINDOW_S)],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with receiver:
        assert receiver.stdout is not None
        assert receiver.stdout.readline() == "ready\n"
        seconds = 2 * (WARM_UP_S + WINDOWS * WINDOW_S)
        sender = subprocess.Popen(
            [*network.inside(source), sys.executable, "-c", _SEND, kind, address, str(PORT),
             str(size), str(seconds)],
        )  # fmt: skip
        found = [map(float, receiver.stdout.readline().split()) for _ in range(WINDOWS)]
        sender.kill()
        sender.wait()
    rates = [(received / elapsed, calls / elapsed) for received, calls, elapsed in found]
    of_bytes, of_calls = zip(*rates, strict=True)
    return median(of_bytes), median(of_calls)


def stolen_s() -> float:
    """Processor time, summed over processors, that the hypervisor gave to others."""
    return int(Path("/proc/stat").read_text().split()[8]) / os.sysconf("SC_CLK_TCK")


def carried(wanted: float, measure: Callable[[], float], tries: int = 6) -> float:
    """The measurement nearest to ``wanted``, repeated while other load disturbs it.

    Skips the test if the hypervisor gave processor time to others in every try: a link depends on
    timers, and cannot catch up on those that it misses.
    """
    found, lent = [], []
    for _ in range(tries):
        began, before = time.monotonic(), stolen_s()
        found.append(measure())
        lent.append((stolen_s() - before) / (time.monotonic() - began))
        if abs(found[-1] / wanted - 1) <= CLOSE:
            break
    else:
        if min(lent) > LENT:
            pytest.skip(f"the host lent {min(lent):.0%} of a processor and more to others")
    return min(found, key=lambda each: abs(each / wanted - 1))


def unreachable(network: Network) -> list[str]:
    """Every ordered pair of hosts between which ping fails."""
    hosts = network.fabric.hosts
    ping = ["ping", "-q", "-c1", f"-W{PATIENCE_S:.0f}"]
    pings = {
        f"{source} to {to}": subprocess.Popen(
            [*network.inside(source), *ping, network.addressing.ip(to)],
            stdout=subprocess.DEVNULL,
        )
        for source in hosts
        for to in hosts
        if source != to
    }
    return [pair for pair, each in pings.items() if each.wait() != 0]
