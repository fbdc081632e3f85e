"""A rank's part in aggregation trees: the C engine in ``engine/``, loaded into this process.

One socket serves all trees of a rank. ``push`` says what is next on a tree and where its values
lie, ``wait`` sends, receives, adds and mends until something of it is done.
"""

from __future__ import annotations

import ctypes
import math
import os
import socket
import sys
from ctypes import POINTER, c_double, c_int, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p
from dataclasses import dataclass, fields
from enum import IntEnum, IntFlag
from functools import cache
from pathlib import Path
from types import TracebackType

import numpy as np
import numpy.typing as npt

from testbed import wire
from testbed.compiler import compiled
from testbed.protocols import on_trees
from testbed.protocols.roles import Role, Root

_ENGINE = Path(__file__).parent / "engine"
_SOURCES = ("endpoint", "flow", "member", "outbox", "ring", "root", "sender")
_FLAGS = ["-std=c11", "-D_GNU_SOURCE", "-O3", "-march=native", "-Wall", "-Wextra"]
_SANITIZED = ["-Werror", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


class Operation(IntEnum):
    """What is done to a chunk: as ``plan.program`` names it."""

    ALL_REDUCE = 0
    REDUCE = 1
    MULTICAST = 2


class Wake(IntFlag):
    """Why :meth:`Endpoint.wait` came back."""

    PROGRESS = 1
    DEADLINE = 2
    OTHER = 4


@dataclass(frozen=True)
class Counters:
    """What one tree saw at one rank, in fragments.

    ``retransmitted`` were sent again; ``collisions`` had found their slot taken; ``overflows``
    left the range of int32; ``answered_again`` had been complete when they came again; ``ecn``
    reported a long queue.
    """

    retransmitted: int
    collisions: int
    overflows: int
    answered_again: int
    ecn: int


class _Role(ctypes.Structure):
    _fields_ = (
        ("tree", c_uint16),
        ("style", c_uint8),
        ("is_root", c_uint8),
        ("serves", c_uint8),
        ("rank", c_uint8),
        ("window", c_uint32),
        ("slots_count", c_uint32),
        ("peers", c_uint32),
        ("slots", POINTER(c_uint32)),
        ("addresses", POINTER(c_uint32)),
        ("ranks", POINTER(c_uint64)),
        ("workers", POINTER(c_uint32)),
    )


class _Counters(ctypes.Structure):
    _fields_ = tuple((field.name, c_uint64) for field in fields(Counters))


class Endpoint:
    """A rank's UDP socket at ``address`` and its trees.

    ``tick_s`` is how long packets may gather after a wake-up before they are read: interrupt
    moderation, as network cards do it. ``burst`` packets may leave back to back, each of ``values``
    int32. Raises ``BuildError`` without a C compiler, and OSError as sockets do.
    """

    def __init__(
        self, address: str, tick_s: float = 0.0, burst: int = 1, values: int = wire.VALUES
    ) -> None:
        self.values = values
        self._library = load(values)
        self._flows = 0
        error = c_int()
        self._open: int | None = self._library.endpoint_open(
            _network_order(address), tick_s, burst, ctypes.byref(error)
        )
        if self._open is None:
            raise _error(error.value, f"{address}:{wire.PORT}")

    @property
    def _endpoint(self) -> int:
        if self._open is None:
            raise ValueError("the endpoint is closed")
        return self._open

    def fileno(self) -> int:
        return int(self._library.endpoint_descriptor(self._endpoint))

    def close(self) -> None:
        if self._open is not None:
            self._library.endpoint_close(self._open)
            self._open = None

    def __enter__(self) -> Endpoint:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def add(self, role: Role) -> int:
        """Take part in a tree; the number returned names it in the other methods."""
        found = self._library.endpoint_add(self._endpoint, ctypes.byref(_role(role)))
        if found < 0:
            raise _error(-found, f"tree {role.tree}")
        self._flows += 1
        return int(found)

    def push(self, flow: int, operation: Operation, address: int, fragments: int) -> None:
        """The next ``fragments`` of the tree's sequence are the chunk at ``address``.

        It is memory of native int32, a packet's per fragment, that must outlive the operation.
        ALL_REDUCE (members): the sum replaces what is there. REDUCE: members keep it, the root's
        becomes the sum with theirs. MULTICAST: the root's replaces the members'.
        """
        status = self._library.endpoint_push(
            self._endpoint, self._known(flow), operation, address, fragments
        )
        if status < 0:
            raise _error(-status, f"{operation.name} of {fragments} fragments")

    def done(self, flow: int) -> int:
        """How many fragments, counted from the first of the run, are done without a gap."""
        return int(self._library.endpoint_done(self._endpoint, self._known(flow)))

    def counters(self, flow: int) -> Counters:
        found = self._library.endpoint_counters(self._endpoint, self._known(flow)).contents
        return Counters(*(getattr(found, field.name) for field in fields(Counters)))

    def float_sums(self, flow: int) -> npt.NDArray[np.uint64]:
        """Fragments whose values in place are float32, because int32 was too narrow (ATP)."""
        count = c_uint64()
        found = self._library.endpoint_float_sums(
            self._endpoint, self._known(flow), ctypes.byref(count)
        )
        if not count.value:
            return np.zeros(0, np.uint64)
        sums: npt.NDArray[np.uint64] = np.ctypeslib.as_array(found, (count.value,)).copy()
        return sums

    def _known(self, flow: int) -> int:
        if not 0 <= flow < self._flows:
            raise IndexError(f"flow {flow} of {self._flows}")
        return flow

    def wait(self, deadline: float | None = None, other: int = -1) -> Wake:
        """Work until a chunk that was pushed is done, or ``deadline`` (``time.monotonic``) has
        come, or the file ``other`` is readable. Raises OSError as sockets do."""
        until = math.inf if deadline is None else deadline
        while True:
            # Between these calls, at least four times a second, signals find their handlers.
            reasons = self._library.endpoint_wait(self._endpoint, until, other)
            if reasons < 0:
                raise _error(-reasons, "INA socket")
            if reasons > 0:
                return Wake(reasons)


@cache
def load(values: int = wire.VALUES, sanitize: bool = False) -> ctypes.CDLL:
    """The engine for packets of ``values``, compiled now if it was not. Raises ``BuildError``."""
    files = [*(_ENGINE / f"{name}.c" for name in _SOURCES), *sorted(_ENGINE.glob("*.h"))]
    sources = {path.name: path.read_text() for path in files}
    sources["wire.h"] = wire_header(values)
    flags = [*_FLAGS, *(_SANITIZED if sanitize else []), "-shared", "-fPIC"]
    library = ctypes.CDLL(str(compiled("engine", sources, flags, ["-lm"])))
    endpoint, flow = c_void_p, c_int
    signatures = {
        "open": (c_void_p, c_uint32, c_double, c_int, POINTER(c_int)),
        "close": (None, endpoint),
        "descriptor": (c_int, endpoint),
        "add": (c_int, endpoint, POINTER(_Role)),
        "push": (c_int, endpoint, flow, c_int, c_void_p, c_uint64),
        "done": (c_uint64, endpoint, flow),
        "counters": (POINTER(_Counters), endpoint, flow),
        "float_sums": (POINTER(c_uint64), endpoint, flow, POINTER(c_uint64)),
        "wait": (c_int, endpoint, c_double, c_int),
    }
    for name, (result, *arguments) in signatures.items():
        function = getattr(library, f"endpoint_{name}")
        function.restype, function.argtypes = result, arguments
    return library


def wire_header(values: int = wire.VALUES) -> str:
    """``wire`` and the protocols' numbers as a C header, so that there is one truth; packets are of
    ``values``."""
    constants = {k: v for k, v in vars(wire).items() if k[0].isupper() and isinstance(v, int)}
    constants["VALUES"] = values
    members = "".join(f"    uint{bits}_t {name};\n" for name, bits in wire.FIELDS)
    numbers = "".join(f"    {name} = {value},\n" for name, value in constants.items())
    numbers += f"    HEADER_BYTES = {wire.HEADER.itemsize},\n"
    styles = "".join(f"    STYLE_{n.upper()} = {p.number},\n" for n, p in on_trees().items())
    return (
        f"struct header {{\n{members}}};\n\nenum {{\n{numbers}}};\n\nenum style {{\n{styles}}};\n"
    )


def _role(role: Role) -> _Role:
    """As C has it. ctypes keeps the arrays alive as long as the structure."""
    _check(role)
    slots = np.asarray(role.slots, np.uint32).tolist()
    made = _Role(role.tree, role.protocol.number, isinstance(role, Root), window=role.window)
    made.slots, made.slots_count = (c_uint32 * len(slots))(*slots), len(slots)
    if isinstance(role, Root):
        made.serves = role.serves
        peers = [(child.address, sum(1 << rank for rank in child.ranks)) for child in role.children]
        made.workers = (c_uint32 * wire.MAX_WORKERS)()
        for rank, address in (role.workers or {}).items():
            made.workers[rank] = _network_order(address)
    else:
        made.rank = role.rank
        peers = [(role.parent, 0)]
    made.peers = len(peers)
    made.addresses = (c_uint32 * len(peers))(*(_network_order(address) for address, _ in peers))
    made.ranks = (c_uint64 * len(peers))(*(ranks for _, ranks in peers))
    return made


def _check(role: Role) -> None:
    if role.protocol.port != wire.PORT:
        raise ValueError(f"protocol {role.protocol.name} is not spoken over INA packets")
    if role.window < 1:
        raise ValueError(f"a window of {role.window} fragments; at least 1 is needed")
    wanted = 1
    if role.protocol.shares_slots:
        wanted = len(role.slots) if isinstance(role, Root) else role.window
    if len(role.slots) != wanted:
        raise ValueError(
            f"{len(role.slots)} slots for protocol {role.protocol.name}, which needs {wanted}"
        )
    if isinstance(role, Root):
        ranks = {*(role.workers or ()), *(rank for child in role.children for rank in child.ranks)}
    else:
        ranks = {role.rank}
    if max(ranks, default=0) >= wire.MAX_WORKERS:
        raise ValueError(f"rank {max(ranks)}; a packet has room for {wire.MAX_WORKERS} ranks")


def _network_order(address: str) -> int:
    return int.from_bytes(socket.inet_aton(address), sys.byteorder)


def _error(number: int, what: str) -> OSError:
    return OSError(number, f"{os.strerror(number)} ({what})")
