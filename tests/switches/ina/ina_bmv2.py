"""simple_switch in its own namespace, to which tests send packets, and the packets that leave it.

A marker follows each packet: a result whose copies leave at every port. All that leaves before
these copies is the packet's effect, because packets do not overtake in BMv2's queues.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from ina_frames import LINK, UDP, Packet
from ina_scene import ADDRESSING, MARKER, PORTS, SWITCH

from testbed import wire
from testbed.switches.bmv2 import Bmv2Switch

_CLONE_NEWNET, _EVERYTHING = 0x40000000, 0x0003
_MTU = 9100
_PATIENCE = 10.0
_libc = ctypes.CDLL(None, use_errno=True)


@contextlib.contextmanager
def _namespace() -> Iterator[int]:
    """A new network namespace; yields the process that keeps it."""
    with subprocess.Popen(
        ["unshare", "--net", "sh", "-c", "ip link set lo up && echo up && exec sleep infinity"],
        stdout=subprocess.PIPE,
    ) as keeper:
        try:
            assert keeper.stdout is not None and keeper.stdout.readline() == b"up\n"
            yield keeper.pid
        finally:
            keeper.kill()


def _open(namespace: int, interface: str) -> socket.socket:
    def enter_and_open() -> socket.socket:
        descriptor = os.open(f"/proc/{namespace}/ns/net", os.O_RDONLY)
        try:
            # Only this thread moves, and it ends with the call.
            if _libc.setns(descriptor, _CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "setns")
        finally:
            os.close(descriptor)
        opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        opened.bind((interface, _EVERYTHING))
        return opened

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(enter_and_open).result()


class WiredBmv2(Bmv2Switch):
    """Sends packets to a started switch through ``ends``, a socket at every port."""

    ends: Mapping[int, socket.socket]
    _markers = 0

    def process(self, port: int, frame: bytes) -> list[tuple[int, bytes]]:
        """The frames that leave, by port. TimeoutError if the switch does not answer."""
        self.ends[port].send(frame)
        self._markers += 1
        self.ends[port].send(_marker(self._markers))
        return sorted(self._until_marked())

    def _until_marked(self) -> Iterator[tuple[int, bytes]]:
        numbers = {end.fileno(): number for number, end in self.ends.items()}
        while numbers:
            ready = select.select(list(numbers), [], [], _PATIENCE)[0]
            if not ready:
                raise TimeoutError(self.died() or "simple_switch lost a packet")
            for file in ready:
                data, origin = self.ends[numbers[file]].recvfrom(1 << 16)
                if origin[2] == socket.PACKET_OUTGOING:
                    continue
                if _is_marker(data):
                    del numbers[file]
                else:
                    yield numbers[file], data


def _marker(number: int) -> bytes:
    link, udp, ina = np.zeros(1, LINK), np.zeros(1, UDP), np.zeros(1, wire.HEADER)
    link["type"], link["version_ihl"], link["ttl"], link["protocol"] = 0x0800, 0x45, 64, 17
    link["dst"] = int.from_bytes(socket.inet_aton(ADDRESSING.ip(SWITCH)), "big")
    udp["dport"] = wire.PORT
    ina["kind"], ina["tree"], ina["sequence"] = wire.KIND_ACK, MARKER.number, number
    return bytes(Packet(link, udp, ina=ina))


def _is_marker(data: bytes) -> bool:
    at = LINK.itemsize + UDP.itemsize
    if len(data) != at + wire.HEADER_BYTES or data[at] != wire.KIND_ACK:
        return False
    return bool(np.frombuffer(data[at:], wire.HEADER)["tree"][0] == MARKER.number)


@contextlib.contextmanager
def wired_bmv2(program: Path, log: Path) -> Iterator[WiredBmv2]:
    with contextlib.ExitStack() as stack:
        namespace = stack.enter_context(_namespace())
        inside: Sequence[str] = ["nsenter", "--net", "--target", str(namespace)]
        for port in PORTS:
            script = (
                f"ip link add p{port} mtu {_MTU} type veth peer name e{port} mtu {_MTU} &&"
                f" for n in p{port} e{port}; do"
                " sysctl -qw net.ipv6.conf.$n.disable_ipv6=1 && ip link set $n up; done"
            )
            subprocess.run([*inside, "sh", "-e", "-c", script], check=True)
        switch = WiredBmv2(program, log)
        switch.ends = {port: stack.enter_context(_open(namespace, f"e{port}")) for port in PORTS}
        stack.callback(switch.close)
        switch.start({port: f"p{port}" for port in PORTS}, inside)
        yield switch
