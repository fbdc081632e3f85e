"""A rank's part in aggregation trees: the C engine in ``engine/``, loaded into this process.

``push`` gives a tree its next operation and the address of its values. An :class:`Engine` has
neither clock nor socket: its driver hands in packets with their arrival times, and sends what the
engine queues. An :class:`Endpoint` is an engine on the machine's clock and a UDP socket; it serves
all trees of a rank.
"""

from __future__ import annotations

import ctypes
import math
import os
import socket
import sys
from collections.abc import Collection, Iterator, Sequence
from ctypes import (
    POINTER,
    Array,
    c_char_p,
    c_double,
    c_int,
    c_size_t,
    c_uint8,
    c_uint16,
    c_uint32,
    c_uint64,
    c_void_p,
)
from dataclasses import dataclass, fields
from enum import IntEnum, IntFlag
from functools import cache
from itertools import product
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from testbed import wire
from testbed.compiler import Signatures, compiled, declare
from testbed.protocols import folders, on_trees
from testbed.protocols.roles import Member, Neighbours, Role, Root

if TYPE_CHECKING:
    from typing_extensions import Self

_WORD = 64  # bits
_NO_FRAGMENTS = np.zeros(0, np.uint64)
_ENGINE = Path(__file__).parent / "engine"
_FLAGS = ["-std=c11", "-D_GNU_SOURCE", "-O3", "-march=native", "-Wall", "-Wextra"]
_SANITIZED = ["-Werror", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


class Operation(IntEnum):
    """An operation on a chunk; `testbed.plan.program` has the same names."""

    ALL_REDUCE = 0
    REDUCE = 1
    MULTICAST = 2


class Wake(IntFlag):
    """Why :meth:`Endpoint.wait` returned."""

    PROGRESS = 1
    DEADLINE = 2
    OTHER = 4


@dataclass(frozen=True)
class Counters:
    """How many fragments of one tree at one rank:

    ``collisions`` found their slot taken; ``overflows`` have sums that left the range of int32;
    ``answered_again`` arrived again when they were complete; ``ecn`` reported a long queue.
    """

    retransmitted: int
    collisions: int
    overflows: int
    answered_again: int
    ecn: int


class _Role(ctypes.Structure):
    _fields_ = (
        ("tree", c_uint16),
        ("protocol", c_uint8),
        ("is_root", c_uint8),
        ("serves", c_uint8),
        ("bit", c_uint8),
        ("rank", c_uint16),
        ("rank_before", c_uint16),
        ("origin", c_uint32),
        ("window", c_uint32),
        ("message", c_uint32),
        ("slots_count", c_uint32),
        ("peers", c_uint32),
        ("slots", POINTER(c_uint32)),
        ("addresses", POINTER(c_uint32)),
        ("ranks", POINTER(c_uint64)),
        ("workers", POINTER(c_uint32)),
        ("words", c_uint32),
        ("origins", c_uint32),
        ("behind", POINTER(c_uint64)),
        ("begins", c_uint64),
    )


class _Counters(ctypes.Structure):
    _fields_ = tuple((field.name, c_uint64) for field in fields(Counters))


class Engine:
    """A rank's flows, for packets of ``values`` int32; the caller drives it, on any clock.

    ``begins``: the number of every tree's first fragment, the same in all engines. Raises
    ``BuildError`` without a C compiler.
    """

    def __init__(self, values: int = wire.VALUES, begins: int = 0) -> None:
        self.values = values
        self._begins = begins
        self._library = load(values)
        self._flows = 0
        self._open: int | None = self._make()

    def _make(self) -> int:
        made = self._library.engine_open()
        if made is None:
            raise MemoryError
        return int(made)

    @property
    def _engine(self) -> int:
        if self._open is None:
            raise ValueError("the endpoint is closed")
        return self._open

    @property
    def handle(self) -> int:
        """The engine's address, for drivers in C."""
        return self._engine

    def function(self, name: str) -> int:
        """The address of a function of engine.h, such as ``take``."""
        found = ctypes.cast(getattr(self._library, f"engine_{name}"), c_void_p).value
        assert found is not None
        return found

    def close(self) -> None:
        if self._open is not None:
            self._library.engine_close(self._open)
            self._open = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def add(self, role: Role | Neighbours) -> int:
        """Take part in a tree. Returns the flow's number, which the other methods take."""
        made = _role(role)
        made.begins = self._begins
        found = self._library.engine_add(self._engine, ctypes.byref(made))
        if found < 0:
            raise _error(-found, f"tree {role.tree}")
        self._flows += 1
        return int(found)

    def push(
        self, flow: int, operation: Operation, address: int, count: int, priority: int = 0
    ) -> int:
        """Make the chunk of ``count`` values at ``address`` the next fragments of the tree's
        sequence. Returns their number.

        The memory holds int32 in the host's byte order, and must outlive the operation. The last
        fragment may be partly filled: its packets are full, with zeros behind the values.
        ALL_REDUCE (members): the sum replaces the values. REDUCE: members keep their values, and
        the root adds them to its own. MULTICAST: the root's replace the members'. ``priority``: see
        `Unit.priority`.
        """
        status = self._library.engine_push(
            self._engine, self._known(flow), operation, address, count, priority
        )
        if status < 0:
            raise _error(-status, f"{operation.name} of {count} values")
        return -(-count // self.values)

    def done(self, flow: int) -> int:
        """Number of fragments done without a gap, counted from the first of the run."""
        return int(self._library.engine_done(self._engine, self._known(flow)))

    def finished(self) -> Iterator[int]:
        """The flows, in order, that have finished a chunk since the last call."""
        while (flow := self._library.engine_finished(self._engine)) >= 0:
            yield flow

    def counters(self, flow: int) -> Counters:
        found = self._library.engine_counters(self._engine, self._known(flow)).contents
        return Counters(*(getattr(found, field.name) for field in fields(Counters)))

    def float_sums(self, flow: int) -> npt.NDArray[np.uint64]:
        """Fragments whose memory holds float32, because int32 was too narrow (ATP)."""
        count = c_uint64()
        found = self._library.engine_float_sums(
            self._engine, self._known(flow), ctypes.byref(count)
        )
        if not count.value:
            return _NO_FRAGMENTS
        sums: npt.NDArray[np.uint64] = np.ctypeslib.as_array(found, (count.value,)).copy()
        return sums

    def _known(self, flow: int) -> int:
        if not 0 <= flow < self._flows:
            raise IndexError(f"flow {flow} of {self._flows}")
        return flow

    def take(self, packet: bytes, now: float) -> None:
        """Process a packet that arrived at ``now``."""
        self._library.engine_take(self._engine, packet, len(packet), now)

    def pump(self, now: float) -> float:
        """Continue after packets, pushes or the time that the last call returned.

        Returns when to call it again if nothing arrives before; infinity means never.
        """
        self._library.engine_pump(self._engine, now)
        return float(self._library.engine_deadline(self._engine))

    def packets(self) -> Iterator[tuple[str, bytes]]:
        """Take the packets to be sent, each with its destination."""
        packet = ctypes.create_string_buffer(wire.HEADER_BYTES + 4 * self.values + 64)
        address = c_uint32()
        while size := self._library.engine_next(self._engine, packet, ctypes.byref(address)):
            yield socket.inet_ntoa(address.value.to_bytes(4, sys.byteorder)), packet.raw[:size]


class Endpoint(Engine):
    """An engine on a UDP socket at ``address`` and ``port``, where all its flows' packets arrive.

    ``tick_s`` is how long packets may gather after a wake-up before they are read, like a network
    card's interrupt moderation. ``burst`` packets may leave back to back, each of ``values`` int32.
    ``pace`` is how many seconds pass on the engine's clock in a second.
    Raises ``BuildError`` without a C compiler, and OSError as sockets do.
    """

    def __init__(
        self,
        address: str,
        tick_s: float = 0.0,
        burst: int = 1,
        values: int = wire.VALUES,
        port: int = wire.PORT,
        pace: float = 1.0,
    ) -> None:
        self._address, self._port = address, port
        self._tick_s, self._burst, self._pace = tick_s, burst, pace
        super().__init__(values)

    def _make(self) -> int:
        error = c_int()
        self._endpoint: int | None = self._library.endpoint_open(
            _network_order(self._address),
            self._port,
            self._tick_s,
            self._burst,
            self._pace,
            ctypes.byref(error),
        )
        if self._endpoint is None:
            raise _error(error.value, f"{self._address}:{self._port}")
        return int(self._library.endpoint_engine(self._endpoint))

    def fileno(self) -> int:
        assert self._engine
        return int(self._library.endpoint_descriptor(self._endpoint))

    def close(self) -> None:
        if self._open is not None:
            self._library.endpoint_close(self._endpoint)
            self._open = None

    def add(self, role: Role | Neighbours) -> int:
        if role.protocol.port != self._port:
            raise ValueError(f"protocol {role.protocol.name} is not spoken at port {self._port}")
        return super().add(role)

    def wait(self, deadline: float | None = None, other: int = -1) -> Wake:
        """Work until a pushed chunk is done, ``deadline`` (``time.monotonic``) has passed, or the
        file ``other`` is readable. Raises OSError as sockets do."""
        assert self._engine
        until = math.inf if deadline is None else deadline
        while True:
            # Signal handlers run between these calls, at least four times a second.
            reasons = self._library.endpoint_wait(self._endpoint, until, other)
            if reasons < 0:
                raise _error(-reasons, f"socket at port {self._port}")
            if reasons > 0:
                return Wake(reasons)


@cache
def load(values: int = wire.VALUES, sanitize: bool = False) -> ctypes.CDLL:
    """The engine for packets of ``values``, compiled if needed. Raises ``BuildError``."""
    files = [path for folder in (_ENGINE, *folders()) for path in sorted(folder.glob("*.[ch]"))]
    sources = {path.name: path.read_text() for path in files}
    sources["wire.h"] = wire_header(values)
    sources["protocols.c"] = protocols_table()
    flags = [*_FLAGS, *(_SANITIZED if sanitize else []), "-shared", "-fPIC"]
    library = ctypes.CDLL(str(compiled("engine", sources, flags, ["-lm"])))
    engine, endpoint, flow = c_void_p, c_void_p, c_int
    signatures: Signatures = {
        "engine_open": (c_void_p,),
        "engine_close": (None, engine),
        "engine_add": (c_int, engine, POINTER(_Role)),
        "engine_push": (c_int, engine, flow, c_int, c_void_p, c_uint64, c_uint8),
        "engine_done": (c_uint64, engine, flow),
        "engine_finished": (c_int, engine),
        "engine_counters": (POINTER(_Counters), engine, flow),
        "engine_float_sums": (POINTER(c_uint64), engine, flow, POINTER(c_uint64)),
        "engine_take": (None, engine, c_char_p, c_size_t, c_double),
        "engine_pump": (None, engine, c_double),
        "engine_deadline": (c_double, engine),
        "engine_next": (c_size_t, engine, c_void_p, POINTER(c_uint32)),
        "endpoint_open": (c_void_p, c_uint32, c_uint16, c_double, c_int, c_double, POINTER(c_int)),
        "endpoint_close": (None, endpoint),
        "endpoint_engine": (c_void_p, endpoint),
        "endpoint_descriptor": (c_int, endpoint),
        "endpoint_wait": (c_int, endpoint, c_double, c_int),
    }
    declare(library, signatures)
    return library


def wire_header(values: int = wire.VALUES) -> str:
    """``wire`` as a C header, so that it has one definition; packets are of ``values``."""
    constants = {k: v for k, v in vars(wire).items() if k[0].isupper() and isinstance(v, int)}
    constants["VALUES"] = values
    members = "".join(f"    uint{bits}_t {name};\n" for name, bits in wire.FIELDS)
    numbers = "".join(f"    {name} = {value},\n" for name, value in constants.items())
    return f"struct header {{\n{members}}};\n\nenum {{\n{numbers}}};\n"


def protocols_table() -> str:
    """C table of the protocols' host sides, by number; no entry for one without a C file."""
    in_c = {path.name for path in folders() if (path / f"{path.name}.c").exists()}
    found = {name: each.number for name, each in on_trees().items() if name in in_c}
    declared = "".join(f"extern const struct protocol {name};\n" for name in found)
    table = "".join(f"    [{number}] = &{name},\n" for name, number in found.items())
    definition = f"const struct protocol *const protocols[256] = {{\n{table}}};\n"
    return f'#include "flow.h"\n\n{declared}\n{definition}'


def _role(role: Role | Neighbours) -> _Role:
    """``role`` as a C structure. ctypes keeps the arrays alive as long as the structure."""
    made = _Role(role.tree, role.protocol.number, isinstance(role, Root), window=role.window)
    if isinstance(role, Neighbours):
        _check_ring(role)
        made.rank, made.rank_before, made.message = role.rank, role.rank_before, role.message
        peers = [role.before, role.to, role.after]
    else:
        _check(role)
        count = len(role.slots)
        made.slots, made.slots_count = (c_uint32 * count)(*role.slots), count
        if isinstance(role, Root):
            _add_ranks(made, role)
            peers = [child.address for child in role.children]
        else:
            made.bit, made.origin = role.bit, role.origin
            peers = [role.parent]
    made.peers = len(peers)
    made.addresses = (c_uint32 * len(peers))(*map(_network_order, peers))
    return made


def _add_ranks(made: _Role, role: Root) -> None:
    """Fill in which ranks' contributions each packet to a root holds."""
    made.serves, made.words = role.serves, 1 + max(_ranks(role), default=0) // _WORD
    made.ranks = _sets([child.ranks for child in role.children], made.words)
    made.workers = (c_uint32 * (_WORD * made.words))()
    for rank, address in (role.workers or {}).items():
        made.workers[rank] = _network_order(address)
    made.origins = max((number for number, _ in role.behind), default=0)
    places = product(range(1, made.origins + 1), range(wire.BITMAP))
    made.behind = _sets([role.behind.get(place, frozenset()) for place in places], made.words)


def _sets(sets: Sequence[Collection[int]], words: int) -> Array[c_uint64]:
    """Sets of ranks, each as ``words`` words."""
    made = (c_uint64 * (len(sets) * words))()
    for place, ranks in enumerate(sets):
        for rank in ranks:
            made[place * words + rank // _WORD] |= 1 << rank % _WORD
    return made


def _ranks(role: Root) -> set[int]:
    return {*(role.workers or ()), *(rank for child in role.children for rank in child.ranks)}


def _check_ring(role: Neighbours) -> None:
    if not 1 <= role.window <= wire.LIVE_MESSAGES:
        raise ValueError(f"a window of {role.window} messages, wanted 1 to {wire.LIVE_MESSAGES}")


def _check(role: Role) -> None:
    if role.window < 1:
        raise ValueError(f"a window of {role.window} fragments; at least 1 is needed")
    wanted = 1
    if role.protocol.shares_slots:
        wanted = len(role.slots) if isinstance(role, Root) else role.window
    if len(role.slots) != wanted:
        raise ValueError(
            f"{len(role.slots)} slots for protocol {role.protocol.name}, which needs {wanted}"
        )
    highest = role.bit if isinstance(role, Member) else max(_ranks(role), default=0)
    if highest >= wire.BITMAP and not (isinstance(role, Root) and role.behind):
        raise ValueError(f"bit {highest}; a packet has room for {wire.BITMAP}")


def _network_order(address: str) -> int:
    return int.from_bytes(socket.inet_aton(address), sys.byteorder)


def _error(number: int, what: str) -> OSError:
    return OSError(number, f"{os.strerror(number)} ({what})")
