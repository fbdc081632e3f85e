"""Runs simple_switch in a namespace of its own, gives it packets one by one, and collects its
output.

Each packet is followed by a marker for each port: a plain packet that is forwarded there.
Everything that leaves a port before its marker is the packet's effect, because packets do not
overtake one another in BMv2's queues.
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
from functools import partial
from pathlib import Path

import numpy as np

from testbed.lifetime import die_with_parent
from testbed.switches.bmv2 import Bmv2Switch
from testbed.switches.frames import LINK, UDP, Packet, set_checksum
from testbed.topology.addressing import Addressing
from testbed.topology.fabric import Fabric

_CLONE_NEWNET, _EVERYTHING = 0x40000000, 0x0003
_MTU = 9100
_PATIENCE = 10.0
_MARKER_PORT = 9  # discard
_libc = ctypes.CDLL(None, use_errno=True)


@contextlib.contextmanager
def _namespace() -> Iterator[int]:
    """A new network namespace; yields the process that keeps it."""
    with subprocess.Popen(
        ["unshare", "--net", "sh", "-c", "ip link set lo up && echo up && exec sleep infinity"],
        stdout=subprocess.PIPE,
        preexec_fn=partial(die_with_parent, os.getpid()),
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
            # Only this thread changes its namespace, and it ends with the call.
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
    """Sends packets to a started switch through ``ends``, a socket at every port.

    ``behind`` has, for each port, the address of a node that is reached only through that port.
    """

    ends: Mapping[int, socket.socket]
    behind: Mapping[int, int]
    _markers = 0

    def process(self, port: int, frame: bytes) -> list[tuple[int, bytes]]:
        """The frames that leave, by port. TimeoutError if the switch does not answer."""
        self.ends[port].send(frame)
        self._markers += 1
        for to in self.behind.values():
            self.ends[port].send(_marker(self._markers, to))
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
                if _is_marker(data, self._markers):
                    del numbers[file]
                else:
                    yield numbers[file], data


def _marker(number: int, to: int) -> bytes:
    link, udp = np.zeros(1, LINK), np.zeros(1, UDP)
    link["type"], link["version_ihl"], link["ttl"], link["protocol"] = 0x0800, 0x45, 64, 17
    link["dst"] = to
    rest = number.to_bytes(4, "big")
    udp["sport"] = udp["dport"] = _MARKER_PORT
    udp["length"], link["length"] = 8 + len(rest), 28 + len(rest)
    set_checksum(link)
    return bytes(Packet(link, udp, rest=rest))


def _is_marker(data: bytes, number: int) -> bool:
    at = LINK.itemsize
    ports = data[at : at + 4]
    payload = data[at + UDP.itemsize : at + UDP.itemsize + 4]
    return ports == 2 * _MARKER_PORT.to_bytes(2, "big") and payload == number.to_bytes(4, "big")


@contextlib.contextmanager
def wired_bmv2(
    program: Path, log: Path, name: str, fabric: Fabric, addressing: Addressing
) -> Iterator[WiredBmv2]:
    """The switch ``name`` of ``fabric``, whose table entries are still to be installed."""
    with contextlib.ExitStack() as stack:
        namespace = stack.enter_context(_namespace())
        inside: Sequence[str] = ["nsenter", "--net", "--target", str(namespace)]
        ports = {addressing.port(name, each): each for each in fabric.neighbours(name)}
        for port in ports:
            script = (
                f"ip link add p{port} mtu {_MTU} type veth peer name e{port} mtu {_MTU} &&"
                f" for n in p{port} e{port}; do"
                " sysctl -qw net.ipv6.conf.$n.disable_ipv6=1 && ip link set $n up; done"
            )
            subprocess.run([*inside, "sh", "-e", "-c", script], check=True)
        switch = WiredBmv2(program, log)
        switch.ends = {port: stack.enter_context(_open(namespace, f"e{port}")) for port in ports}
        switch.behind = {port: addressing.ip_number(each) for port, each in ports.items()}
        stack.callback(switch.close)
        switch.start({port: f"p{port}" for port in ports}, inside)
        yield switch
