"""The C core, as Python sees it. Times are picoseconds, sizes bytes."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import POINTER, c_int, c_int64, c_uint16, c_uint32, c_uint64, c_void_p
from enum import IntEnum
from functools import cache
from pathlib import Path
from typing import Any

from testbed.compiler import compiled

_CORE = Path(__file__).parent / "core"
_FLAGS = ("-std=gnu11", "-O3", "-march=native", "-Wall", "-Wextra", "-shared", "-fPIC")

SECOND = 10**12
NEVER = (1 << 63) - 1
HOST, ROUTER, SWITCH = range(3)


class TcpSettings(ctypes.Structure):
    """See core/tcp.h."""

    _fields_ = (
        ("mss", c_uint32),
        ("overhead", c_uint32),
        ("initial_window", c_uint32),
        ("receive_window", c_uint64),
        ("small_queue", c_uint64),
        ("least_timeout", c_int64),
        ("longest_timeout", c_int64),
        ("first_timeout", c_int64),
        ("acknowledge_delay", c_int64),
    )


class Link(ctypes.Structure):
    """See core/simulation.h."""

    _fields_ = (
        ("a", c_uint32),
        ("b", c_uint32),
        ("rate", c_int64),
        ("delay", c_int64),
        ("limit_a", c_uint64),
        ("limit_b", c_uint64),
        ("mark_from", c_uint64),
        ("jitter_a", c_int64),
        ("jitter_b", c_int64),
        ("loss", c_uint64),
        ("duplication", c_uint64),
        ("seed", c_uint64),
    )


class EngineCalls(ctypes.Structure):
    """Addresses of the functions of a hosts' engine; see core/host.h."""

    names = ("take", "pump", "deadline", "progress", "next")
    _fields_ = tuple((name, c_void_p) for name in names)


class P4Calls(ctypes.Structure):
    """Addresses of the functions of an embedded switch; see core/p4.h."""

    _fields_ = (("attach", c_void_p), ("process", c_void_p))


class Kind(IntEnum):
    """What has happened: a stream has reached a position, or an engine has finished a chunk."""

    STREAM = 0
    ENGINE = 1


class _Happening(ctypes.Structure):
    _fields_ = (("at", c_int64), ("kind", c_uint32), ("number", c_uint32))


class PortCounters(ctypes.Structure):
    _fields_ = tuple(
        (name, c_uint64)
        for name in (
            "sent_bytes", "sent_frames", "dropped", "marked", "lost", "duplicated", "most_waiting",
        )
    )  # fmt: skip


class TcpCounters(ctypes.Structure):
    _fields_ = tuple(
        (name, c_uint64)
        for name in ("segments", "retransmitted", "timeouts", "recoveries", "probes")
    )


class Simulation:
    """A fabric of ``nodes`` in virtual time; a context manager that frees itself."""

    def __init__(self, nodes: int, data_room: int, tcp: TcpSettings) -> None:
        self._library = _library()
        self._open: Any = self._library.simulation_open(nodes, data_room, ctypes.byref(tcp))

    def __enter__(self) -> Simulation:
        return self

    def __exit__(self, *_: object) -> None:
        if self._open is not None:
            self._library.simulation_close(self._open)
            self._open = None

    def node(self, number: int, kind: int, address: int, salt: int) -> None:
        self._library.simulation_node(self._open, number, kind, address, salt)

    def link(self, link: Link) -> None:
        """Both directions; each end takes the node's next port number, from 0."""
        self._library.simulation_link(self._open, ctypes.byref(link))

    def way(self, node: int, to: int, ports: Sequence[int]) -> None:
        """The ports by which a packet at ``node`` may go to ``to``."""
        array = (c_uint32 * len(ports))(*ports)
        self._library.simulation_way(self._open, node, to, len(ports), array)

    def connect(self, source: int, to: int, source_port: int, to_port: int) -> int:
        """A TCP connection between two hosts; its number."""
        number = self._library.simulation_connect(self._open, source, to, source_port, to_port)
        return int(number)

    def write(self, connection: int, size: int) -> None:
        """Append so many bytes to the stream."""
        self._library.simulation_write(self._open, connection, size)

    def expect(self, connection: int, position: int) -> None:
        """Let :meth:`run` tell when so many bytes of the stream have arrived."""
        self._library.simulation_expect(self._open, connection, position)

    def received(self, connection: int) -> int:
        return int(self._library.simulation_received(self._open, connection))

    def engine(self, node: int, handle: int, calls: EngineCalls, udp_port: int) -> int:
        """Give a host an engine, at whose UDP port its packets arrive; its number."""
        number = self._library.simulation_engine(
            self._open, node, handle, ctypes.byref(calls), udp_port
        )
        return int(number)

    def pump(self, engine: int) -> None:
        """Let an engine go on after a push."""
        self._library.simulation_pump(self._open, engine)

    def program(self, node: int, calls: P4Calls) -> None:
        """Make a node a switch that runs a P4 program."""
        self._library.simulation_program(self._open, node, ctypes.byref(calls))

    def run(self, until: int) -> tuple[Kind, int] | None:
        """Run to the next expected arrival on a connection, or to the next finished chunk of an
        engine; which. None when it is ``until``, or nothing is left to happen."""
        found = _Happening()
        if self._library.simulation_run(self._open, until, ctypes.byref(found)) == 1:
            return Kind(found.kind), int(found.number)
        return None

    @property
    def now(self) -> int:
        return int(self._library.simulation_now(self._open))

    @property
    def hops(self) -> int:
        """Packets that were put on links."""
        return int(self._library.simulation_hops(self._open))

    def port(self, node: int, port: int) -> PortCounters:
        found: PortCounters = self._library.simulation_port(self._open, node, port)[0]
        return found

    def tcp(self, connection: int) -> TcpCounters:
        found: TcpCounters = self._library.simulation_counters(self._open, connection)[0]
        return found


@cache
def _library() -> ctypes.CDLL:
    sources = {path.name: path.read_text() for path in sorted(_CORE.iterdir())}
    library = ctypes.CDLL(str(compiled("packets", sources, _FLAGS)))
    signatures: dict[str, tuple[Any, ...]] = {
        "open": (c_void_p, c_uint32, c_uint32, POINTER(TcpSettings)),
        "close": (None, c_void_p),
        "node": (None, c_void_p, c_uint32, c_int, c_uint32, c_uint64),
        "link": (None, c_void_p, POINTER(Link)),
        "way": (None, c_void_p, c_uint32, c_uint32, c_uint32, POINTER(c_uint32)),
        "connect": (c_uint32, c_void_p, c_uint32, c_uint32, c_uint16, c_uint16),
        "write": (None, c_void_p, c_uint32, c_uint64),
        "expect": (None, c_void_p, c_uint32, c_uint64),
        "received": (c_uint64, c_void_p, c_uint32),
        "engine": (c_uint32, c_void_p, c_uint32, c_void_p, POINTER(EngineCalls), c_uint16),
        "pump": (None, c_void_p, c_uint32),
        "program": (None, c_void_p, c_uint32, POINTER(P4Calls)),
        "run": (c_int, c_void_p, c_int64, POINTER(_Happening)),
        "now": (c_int64, c_void_p),
        "hops": (c_uint64, c_void_p),
        "port": (POINTER(PortCounters), c_void_p, c_uint32, c_uint32),
        "counters": (POINTER(TcpCounters), c_void_p, c_uint32),
    }
    for name, (result, *arguments) in signatures.items():
        function = getattr(library, f"simulation_{name}")
        function.restype, function.argtypes = result, arguments
    return library
