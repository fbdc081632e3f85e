"""Python's interface to the C core. Times are in picoseconds, sizes in bytes."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import (
    POINTER,
    c_bool,
    c_char_p,
    c_double,
    c_int,
    c_int64,
    c_uint16,
    c_uint32,
    c_uint64,
    c_void_p,
)
from enum import IntEnum
from functools import cache
from pathlib import Path
from typing import Any

from testbed.backends.digests import Digests
from testbed.compiler import Signatures, compiled, declare

_CORE = Path(__file__).parent / "core"
_FLAGS = (
    "-std=gnu11",
    "-O3",
    "-march=native",
    "-ffp-contract=off",
    "-Wall",
    "-Wextra",
    "-shared",
    "-fPIC",
)

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
        ("queued_time", c_int64),
        ("most_queued", c_uint64),
        ("least_timeout", c_int64),
        ("longest_timeout", c_int64),
        ("first_timeout", c_int64),
        ("timer_slack", c_int64),
        ("acknowledge_delay", c_int64),
        ("gather_time", c_int64),
    )


class Link(ctypes.Structure):
    """See core/simulation.h."""

    _fields_ = (
        ("a", c_uint32),
        ("b", c_uint32),
        ("rate", c_int64),
        ("delay_a", c_int64),
        ("delay_b", c_int64),
        ("burst", c_int64),
        ("limit_a", c_uint64),
        ("limit_b", c_uint64),
        ("jitter_a", c_int64),
        ("jitter_b", c_int64),
        ("loss", c_uint64),
        ("duplication", c_uint64),
        ("seed", c_uint64),
    )


class EngineCalls(ctypes.Structure):
    """Addresses of the functions of a hosts' engine; see core/host.h."""

    names = ("take", "pump", "deadline", "progress", "next", "look")
    _fields_ = tuple((name, c_void_p) for name in names)


class P4Calls(ctypes.Structure):
    """Addresses of the functions of an embedded switch; see core/p4.h."""

    _fields_ = (("attach", c_void_p), ("process", c_void_p))


class Kind(IntEnum):
    """What happened: messages have arrived, an engine has finished a chunk, or a connection is
    broken."""

    STREAM = 0
    ENGINE = 1
    BROKEN = 2


_KINDS = tuple(Kind)


class _Happening(ctypes.Structure):
    _fields_ = (("at", c_int64), ("kind", c_uint32), ("number", c_uint32), ("count", c_uint32))


class PortCounters(ctypes.Structure):
    _fields_ = tuple(
        (name, c_uint64)
        for name in (
            "sent_bytes", "sent_frames", "dropped", "lost", "duplicated", "most_waiting",
            "corrupted", "delivered",
        )
    )  # fmt: skip


class _Digests(ctypes.Structure):
    """See core/digests.h."""

    _fields_ = (
        ("state", c_uint64),
        ("packets", c_uint64),
        ("every", c_uint32),
        ("count", c_uint32),
        ("kept", c_uint16 * 512),
    )


class Impairment(ctypes.Structure):
    """See core/port.h."""

    _fields_ = (
        ("loss", c_uint64),
        ("duplication", c_uint64),
        ("corruption", c_uint64),
        ("delay", c_uint64),
        ("longest", c_int64),
    )


class TcpCounters(ctypes.Structure):
    _fields_ = tuple(
        (name, c_uint64)
        for name in ("segments", "retransmitted", "timeouts", "recoveries", "probes")
    )


class Simulation:
    """A fabric of ``nodes`` in virtual time; a context manager that frees itself."""

    def __init__(self, nodes: int, data_room: int, tcp: TcpSettings) -> None:
        self._library = library()
        self._charged: set[int] = set()
        self._happening = _Happening()
        self._found = ctypes.byref(self._happening)
        self.now = 0
        self._open: Any = self._library.simulation_open(nodes, data_room, ctypes.byref(tcp))

    def __enter__(self) -> Simulation:
        return self

    def __exit__(self, *_: object) -> None:
        if self._open is not None:
            self._library.simulation_close(self._open)
            self._open = None

    def node(self, number: int, kind: int, address: int, salt: int) -> None:
        self._library.simulation_node(self._open, number, kind, address, salt)

    def charge(self, node: int, packet_cost: int, message_cost: int) -> None:
        """Make each packet and each message, sent or received, take this much of a host's time."""
        self._charged.add(node)
        self._library.simulation_charge(self._open, node, packet_cost, message_cost)

    def is_charged(self, node: int) -> bool:
        """Whether packets and messages take a host's time."""
        return node in self._charged

    def handle_message(self, node: int) -> int:
        """Let a host handle a message; returns when it has done so."""
        if node not in self._charged:
            return self.now
        return int(self._library.simulation_handle(self._open, node))

    def link(self, link: Link) -> None:
        """Add a link, with both directions. Each end takes the next port number of its node, from
        0."""
        self._library.simulation_link(self._open, ctypes.byref(link))

    def next_hops(self, node: int, to: int, ports: Sequence[int]) -> None:
        """Set the ports on shortest paths from ``node`` to ``to``."""
        array = (c_uint32 * len(ports))(*ports)
        self._library.simulation_next_hops(self._open, node, to, len(ports), array)

    def route(self, node: int, source: int, to: int, port: int) -> None:
        """Send packets from address ``source`` to address ``to`` through ``port`` of ``node``."""
        self._library.simulation_route(self._open, node, source, to, port)

    def connect(self, source: int, to: int, source_port: int, to_port: int) -> int:
        """Open a TCP connection between two hosts; returns its number."""
        number = self._library.simulation_connect(self._open, source, to, source_port, to_port)
        return int(number)

    def write(self, connection: int, size: int) -> None:
        """Append a message of ``size`` bytes to the stream, and make :meth:`run` return when it
        has arrived."""
        self._library.simulation_write(self._open, connection, size)

    def engine(self, node: int, handle: int, calls: EngineCalls, udp_port: int, pace: float) -> int:
        """Give a host an engine that receives at ``udp_port``; returns the engine's number.

        ``pace``: seconds of the engine in a simulated second.
        """
        number = self._library.simulation_engine(
            self._open, node, handle, ctypes.byref(calls), udp_port, c_double(pace)
        )
        return int(number)

    def pump(self, engine: int) -> None:
        """Run an engine after a push."""
        self._library.simulation_pump(self._open, engine)

    def program(self, node: int, calls: P4Calls, adds: int = 0) -> None:
        """Make a node a switch that runs a P4 program.

        ``adds``: the time that it takes to add the values of one packet; 0 for no limit.
        """
        self._library.simulation_program(self._open, node, ctypes.byref(calls), adds)

    def carry(self, values_from: int, uncarried: int) -> None:
        """Make UDP packets longer than ``values_from`` bytes count as ``uncarried`` bytes longer on
        links."""
        self._library.simulation_carry(self._open, values_from, uncarried)

    def run(self, until: int) -> tuple[Kind, int, int] | None:
        """Run until the next event that a rank waits for, and return it with the number of its
        connection or engine, and how many messages of the stream have arrived. None at ``until``,
        or if no event is left."""
        found = self._happening
        ended = self._library.simulation_run(self._open, until, self._found)
        self.now = found.at
        return (_KINDS[found.kind], found.number, found.count) if ended == 1 else None

    @property
    def handle(self) -> int:
        """The simulation's address, for other functions of the C core."""
        return int(self._open)

    def set_down(self, node: int, port: int, is_down: bool) -> None:
        """Take a port out of service, or put it back. Packets that it sends meanwhile are lost."""
        self._library.simulation_set_down(self._open, node, port, is_down)

    def impair(self, node: int, port: int, impairment: Impairment) -> None:
        """Set what the link does, from now on, to frames that leave by a port."""
        self._library.simulation_impair(self._open, node, port, ctypes.byref(impairment))

    def pause(self, node: int, is_paused: bool) -> None:
        """Stop a host's engines, or let them continue with what has arrived meanwhile."""
        self._library.simulation_pause(self._open, node, is_paused)

    def inject(self, node: int, frame: bytes) -> None:
        """Let a host send a frame that no engine made. Anything but UDP over IPv4 is ignored."""
        self._library.simulation_inject(self._open, node, frame, len(frame))

    def held(self, node: int, port: int) -> int:
        """Frames that a port's link has not delivered yet."""
        return int(self._library.simulation_held(self._open, node, port))

    @property
    def unaccounted(self) -> int:
        """Packets in memory that nothing holds any more."""
        return int(self._library.simulation_unaccounted(self._open))

    @property
    def hops(self) -> int:
        """Packets put on links so far."""
        return int(self._library.simulation_hops(self._open))

    def digests(self) -> Digests:
        """Digests of the packets put on links so far."""
        found = self._library.simulation_digests(self._open)[0]
        kept = (*found.kept[: found.count], found.state >> 48)
        return Digests(int(found.packets), int(found.every), kept)

    def port(self, node: int, port: int) -> PortCounters:
        """A copy of a port's counters as they are now."""
        return PortCounters.from_buffer_copy(
            self._library.simulation_port(self._open, node, port)[0]
        )

    def inside(self, node: int) -> PortCounters | None:
        """Like `port`, for a node's own queue: a host's processor, a switch's adder."""
        found = self._library.simulation_inside(self._open, node)
        return PortCounters.from_buffer_copy(found[0]) if found else None

    def tcp(self, connection: int) -> TcpCounters:
        """A copy of a connection's counters as they are now."""
        return TcpCounters.from_buffer_copy(
            self._library.simulation_counters(self._open, connection)[0]
        )


@cache
def library() -> ctypes.CDLL:
    """The C core, compiled."""
    sources = {path.name: path.read_text() for path in sorted(_CORE.iterdir())}
    library = ctypes.CDLL(str(compiled("packets", sources, _FLAGS)))
    signatures: Signatures = {
        "open": (c_void_p, c_uint32, c_uint32, POINTER(TcpSettings)),
        "close": (None, c_void_p),
        "node": (None, c_void_p, c_uint32, c_int, c_uint32, c_uint64),
        "charge": (None, c_void_p, c_uint32, c_int64, c_int64),
        "handle": (c_int64, c_void_p, c_uint32),
        "link": (None, c_void_p, POINTER(Link)),
        "next_hops": (None, c_void_p, c_uint32, c_uint32, c_uint32, POINTER(c_uint32)),
        "route": (None, c_void_p, c_uint32, c_uint32, c_uint32, c_uint32),
        "connect": (c_uint32, c_void_p, c_uint32, c_uint32, c_uint16, c_uint16),
        "write": (None, c_void_p, c_uint32, c_uint64),
        "engine": (
            c_uint32,
            c_void_p,
            c_uint32,
            c_void_p,
            POINTER(EngineCalls),
            c_uint16,
            c_double,
        ),
        "pump": (None, c_void_p, c_uint32),
        "program": (None, c_void_p, c_uint32, POINTER(P4Calls), c_int64),
        "carry": (None, c_void_p, c_uint32, c_uint32),
        "run": (c_int, c_void_p, c_int64, POINTER(_Happening)),
        "set_down": (None, c_void_p, c_uint32, c_uint32, c_bool),
        "impair": (None, c_void_p, c_uint32, c_uint32, POINTER(Impairment)),
        "pause": (None, c_void_p, c_uint32, c_bool),
        "inject": (None, c_void_p, c_uint32, c_char_p, c_uint32),
        "unaccounted": (c_uint64, c_void_p),
        "held": (c_uint32, c_void_p, c_uint32, c_uint32),
        "hops": (c_uint64, c_void_p),
        "digests": (POINTER(_Digests), c_void_p),
        "port": (POINTER(PortCounters), c_void_p, c_uint32, c_uint32),
        "inside": (POINTER(PortCounters), c_void_p, c_uint32),
        "counters": (POINTER(TcpCounters), c_void_p, c_uint32),
    }
    declare(library, signatures, "simulation_")
    return library
