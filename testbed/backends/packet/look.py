"""Python's interface to core/look.h: a look inside a simulation that does not change it."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from ctypes import (
    POINTER,
    byref,
    c_bool,
    c_char_p,
    c_double,
    c_int,
    c_int64,
    c_uint8,
    c_uint16,
    c_uint32,
    c_uint64,
    c_void_p,
)  # fmt: skip
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from testbed.backends.packet.simulation import SECOND, Simulation, library
from testbed.compiler import Signatures, declare


class Spell(NamedTuple):
    """A period in which a link or a switch was busy, in seconds of simulated time.

    ``busy_s`` is its length without the short pauses.
    """

    start_s: float
    end_s: float
    busy_s: float
    packets: int
    bytes: int
    dropped: int


class Connection(NamedTuple):
    """A TCP sender at one instant: IPv4 addresses and ports, numbers of bytes, and times in
    seconds."""

    source: tuple[int, int]
    to: tuple[int, int]
    window: int
    in_flight: int
    round_trip_s: float


class Flow(NamedTuple):
    """A host's part in an aggregation tree at one instant: numbers of fragments, and times in
    seconds."""

    node: int
    tree: int
    window: int
    in_flight: int
    round_trip_s: float


class Packet(NamedTuple):
    """A packet put on a link: its number among all packets, from 1; nodes, bytes, IPv4 addresses,
    ports.

    ``at_s``: when it left, in seconds of simulated time.
    """

    number: int
    at_s: float
    ends: tuple[int, int]
    bytes: int
    source: tuple[int, int]
    to: tuple[int, int]
    protocol: int


class _Packet(ctypes.Structure):
    _fields_ = (
        ("number", c_uint64),
        ("at", c_int64),
        ("from", c_uint32),
        ("to", c_uint32),
        ("bytes", c_uint32),
        ("source", c_uint32),
        ("destination", c_uint32),
        ("source_port", c_uint16),
        ("destination_port", c_uint16),
        ("protocol", c_uint32),
    )


class _Spell(ctypes.Structure):
    _fields_ = (
        ("from", c_int64),
        ("until", c_int64),
        ("busy", c_int64),
        ("packets", c_uint64),
        ("bytes", c_uint64),
        ("dropped", c_uint64),
    )


class _Connection(ctypes.Structure):
    _fields_ = (
        ("source", c_uint32),
        ("to", c_uint32),
        ("source_port", c_uint16),
        ("to_port", c_uint16),
        ("protocol", c_uint8),
        ("window", c_uint64),
        ("in_flight", c_uint64),
        ("round_trip", c_int64),
    )


class _FlowState(ctypes.Structure):
    _fields_ = (
        ("tree", c_uint32),
        ("window", c_uint32),
        ("in_flight", c_uint32),
        ("round_trip", c_double),
    )


class _Flow(ctypes.Structure):
    _fields_ = (("node", c_uint32), ("state", _FlowState))


class Look:
    """A context, within that of a ``simulation`` whose fabric has ``ports`` ports and is complete.

    Captures are written when it is left. That raises OSError if one cannot be written.
    """

    def __init__(self, simulation: Simulation, ports: int) -> None:
        self._library = _library()
        self._open: Any = self._library.look_open(simulation.handle)
        self._waiting = np.zeros(ports, np.uint64)

    def __enter__(self) -> Look:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        failed = self._library.look_close(self._open)
        if failed and error is None:
            raise OSError(failed, f"a capture could not be written: {os.strerror(failed)}")

    def capture(self, node: int, port: int, path: Path) -> None:
        """Write the packets of a node's port, in both directions. Raises OSError if ``path`` cannot
        be written."""
        failed = self._library.look_capture(self._open, node, port, os.fsencode(path))
        if failed:
            raise OSError(failed, os.strerror(failed), str(path))

    def record(self, pause: int) -> None:
        """Record spells. A spell ends with a pause in which a link could carry ``pause`` bytes."""
        self._library.look_record(self._open, pause)

    def port(self, node: int, port: int) -> Iterator[Spell]:
        """The spells in which a node sent by a port."""
        found = POINTER(_Spell)()
        count = self._library.look_port_spells(self._open, node, port, byref(found))
        return map(_spell, found[:count])

    def switch(self, node: int) -> Iterator[Spell]:
        """The spells in which INA packets arrived at a switch that sums."""
        found = POINTER(_Spell)()
        count = self._library.look_switch_spells(self._open, node, byref(found))
        return map(_spell, found[:count])

    def list(self, first: int, last: int) -> None:
        """List packets number ``first`` to ``last``."""
        self._library.look_list(self._open, first, last)

    def listed(self) -> Iterator[Packet]:
        """The packets listed so far."""
        found = POINTER(_Packet)()
        for each in found[: self._library.look_listed(self._open, byref(found))]:
            yield Packet(
                each.number,
                each.at / SECOND,
                (getattr(each, "from"), each.to),
                each.bytes,
                (each.source, each.source_port),
                (each.destination, each.destination_port),
                each.protocol,
            )

    @property
    def is_idle(self) -> bool:
        """Whether no event is left."""
        return bool(self._library.look_is_idle(self._open))

    def queues(self) -> npt.NDArray[np.uint64]:
        """The bytes that wait at each port now, in the order of nodes and their ports."""
        self._library.look_queues(self._open, self._waiting.ctypes.data)
        return self._waiting

    def connections(self) -> Iterator[Connection]:
        """All TCP senders at this instant."""
        state, number = _Connection(), 0
        while self._library.look_connection(self._open, number, byref(state)):
            yield Connection(
                (state.source, state.source_port),
                (state.to, state.to_port),
                state.window,
                state.in_flight,
                state.round_trip / SECOND,
            )
            number += 1

    def flows(self) -> Iterator[Flow]:
        """All hosts' parts in trees at this instant."""
        state, engine, flow = _Flow(), 0, 0
        while self._library.look_engine(self._open, engine, flow, byref(state)):
            while self._library.look_engine(self._open, engine, flow, byref(state)):
                own = state.state
                yield Flow(state.node, own.tree, own.window, own.in_flight, own.round_trip)
                flow += 1
            engine, flow = engine + 1, 0


def _spell(found: Any) -> Spell:
    start, until, busy = getattr(found, "from") / SECOND, found.until / SECOND, found.busy / SECOND
    return Spell(start, until, busy, found.packets, found.bytes, found.dropped)


@cache
def _library() -> ctypes.CDLL:
    core = library()
    signatures: Signatures = {
        "open": (c_void_p, c_void_p),
        "close": (c_int, c_void_p),
        "capture": (c_int, c_void_p, c_uint32, c_uint32, c_char_p),
        "record": (None, c_void_p, c_uint64),
        "port_spells": (c_uint32, c_void_p, c_uint32, c_uint32, POINTER(POINTER(_Spell))),
        "switch_spells": (c_uint32, c_void_p, c_uint32, POINTER(POINTER(_Spell))),
        "list": (None, c_void_p, c_uint64, c_uint64),
        "listed": (c_uint32, c_void_p, POINTER(POINTER(_Packet))),
        "is_idle": (c_bool, c_void_p),
        "queues": (None, c_void_p, c_void_p),
        "connection": (c_bool, c_void_p, c_uint32, POINTER(_Connection)),
        "engine": (c_bool, c_void_p, c_uint32, c_uint32, POINTER(_Flow)),
    }
    declare(core, signatures, "look_")
    return core
