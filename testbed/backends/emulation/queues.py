"""The counters of every port's queue, read from the kernel without starting a program.

A netlink socket belongs to the namespace in which it was opened. One socket per node, opened once,
reads all that ``tc -s qdisc`` shows at a fraction of its cost (linux/rtnetlink.h, pkt_sched.h).
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from testbed.hosts.rank_process import enter

_GET_QDISC, _REQUEST, _DUMP = 38, 0x1, 0x300
_ERROR, _DONE = 2, 3
_HEADER = struct.Struct("=IHHII")  # struct nlmsghdr
_QUEUE = struct.Struct("=BBHiIII")  # struct tcmsg
_ATTRIBUTE = struct.Struct("=HH")  # struct rtattr
_STATISTICS = struct.Struct("=QIIIIIII")  # struct tc_stats
_TCA_STATS = 3
_AT_ROOT = 0xFFFFFFFF
_SIOCGIFINDEX = 0x8933
_IFREQ = struct.Struct("=16si20x")


@dataclass(frozen=True)
class Reading:
    """A port's queue at some time from ``begun`` to ``ended`` (monotonic clock).

    ``sent_bytes`` and ``sent_packets`` have left it since it was made. ``dropped`` packets found it
    full. ``waiting_bytes`` are in it.
    """

    begun: float
    ended: float
    sent_bytes: int
    sent_packets: int
    dropped: int
    waiting_bytes: int


class Queues:
    """The queues of ``ports``: the path of each namespace, and the names of its interfaces.

    Raises OSError if a namespace is gone or an interface unknown.
    """

    def __init__(self, ports: Mapping[str, Sequence[str]]) -> None:
        self._nodes: list[tuple[socket.socket, dict[int, str]]] = []
        try:
            # A separate thread enters the namespaces, because this thread must stay in its own.
            with ThreadPoolExecutor(1) as traveller:
                for namespace, names in ports.items():
                    opened = traveller.submit(_open, namespace).result()
                    self._nodes.append((opened, {_index(opened, name): name for name in names}))
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        for opened, _ in self._nodes:
            opened.close()
        self._nodes.clear()

    def read(self) -> dict[str, Reading]:
        """A reading of each port, by interface."""
        readings: dict[str, Reading] = {}
        for opened, names in self._nodes:
            begun = time.monotonic()
            request = _QUEUE.pack(socket.AF_UNSPEC, 0, 0, 0, 0, 0, 0)
            size = _HEADER.size + len(request)
            opened.send(_HEADER.pack(size, _GET_QDISC, _REQUEST | _DUMP, 0, 0) + request)
            found = list(_answers(opened))
            ended = time.monotonic()
            for index, (sent, packets, drops, _, _, _, _, waiting) in found:
                if index in names:
                    readings[names[index]] = Reading(begun, ended, sent, packets, drops, waiting)
        return readings


def _open(namespace: str) -> socket.socket:
    enter(namespace)
    return socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)


def _index(opened: socket.socket, name: str) -> int:
    answer = fcntl.ioctl(opened, _SIOCGIFINDEX, _IFREQ.pack(name.encode(), 0))
    index: int = _IFREQ.unpack(answer)[1]
    return index


def _answers(opened: socket.socket) -> Iterator[tuple[int, tuple[int, ...]]]:
    """(interface index, struct tc_stats) of every root queue."""
    while True:
        data = opened.recv(1 << 16)
        at = 0
        while at < len(data):
            length, kind, *_ = _HEADER.unpack_from(data, at)
            if kind == _DONE:
                return
            if kind == _ERROR:
                (number,) = struct.unpack_from("=i", data, at + _HEADER.size)
                raise OSError(-number, f"queues: {os.strerror(-number)}")
            index, _, parent = _QUEUE.unpack_from(data, at + _HEADER.size)[3:6]
            if parent == _AT_ROOT:
                yield from _statistics(data, at + _HEADER.size + _QUEUE.size, at + length, index)
            at += (length + 3) & ~3


def _statistics(
    data: bytes, at: int, end: int, index: int
) -> Iterator[tuple[int, tuple[int, ...]]]:
    while at + _ATTRIBUTE.size <= end:
        length, kind = _ATTRIBUTE.unpack_from(data, at)
        if kind == _TCA_STATS:
            yield index, _STATISTICS.unpack_from(data, at + _ATTRIBUTE.size)
        at += (length + 3) & ~3
