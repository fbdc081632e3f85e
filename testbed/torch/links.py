"""The memory that the ranks of a group share, and the C code that works on it (``core/``).

The memory has no name: rank 0 makes it, and the others open it through /proc. It is gone when the
last rank has ended, in whatever way.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import socket
import sys
from ctypes import (
    POINTER,
    c_bool,
    c_char_p,
    c_double,
    c_int,
    c_size_t,
    c_uint32,
    c_uint64,
    c_void_p,
)
from functools import cache
from ipaddress import IPv4Address
from pathlib import Path

import numpy as np

from testbed import wire
from testbed.compiler import Signatures, compiled, declare
from testbed.hosts.aggregation import Engine
from testbed.switches.frames import (
    IPV4,
    LINK,
    PROTOCOL_UDP,
    UDP,
    VERSION_AND_LENGTH,
    Packet,
    set_checksum,
)
from testbed.switches.native.embedded import EmbeddedSwitch
from testbed.topology.framing import Framing
from testbed.torch.wiring import Address, Wiring

_FLAGS = ["-std=c11", "-D_GNU_SOURCE", "-O3", "-march=native", "-fno-math-errno"]
_FLAGS += ["-ffp-contract=off", "-fno-trapping-math", "-Wall", "-Wextra", "-shared", "-fPIC"]
_CLOCK = Path(__file__).parents[1] / "hosts" / "engine" / "clock.h"
_BELL = 64  # bytes
_WHOLE = 0x4000  # IPv4's bit for a packet that is not to be cut


class EngineCalls(ctypes.Structure):
    """Functions of the hosts' engine; see core/driver.h."""

    names = ("take", "pump", "deadline", "next", "push", "done")
    _fields_ = tuple((name, c_void_p) for name in names)

    @classmethod
    def of(cls, engine: Engine) -> EngineCalls:
        return cls(*map(engine.function, cls.names))


class SwitchCalls(ctypes.Structure):
    """Functions of a native switch."""

    _fields_ = (("attach", c_void_p), ("process", c_void_p))

    @classmethod
    def of(cls, switch: EmbeddedSwitch) -> SwitchCalls:
        return cls(switch.attach, switch.process)


class Reduction(ctypes.Structure):
    """One all-reduce at a rank; see core/reduction.h."""

    _fields_ = (
        ("node", c_void_p),
        ("engine", c_void_p),
        ("calls", EngineCalls),
        ("flow", c_int),
        ("operation", c_int),
        ("values", c_void_p),
        ("count", c_uint64),
        ("block", c_uint32),
        ("to", c_void_p),
        ("back", c_void_p),
        ("divisor", c_double),
        ("divides", c_bool),
        ("stage", c_void_p),
        ("pushed", c_uint64),
        ("restored", c_uint64),
        ("begin", c_uint64),
    )


@cache
def core() -> ctypes.CDLL:
    """The C code, compiled if needed. Raises ``BuildError``."""
    files = [*sorted(Path(__file__).with_name("core").glob("*.[ch]")), _CLOCK]
    sources = {path.name: path.read_text() for path in files}
    library = ctypes.CDLL(str(compiled("torch", sources, _FLAGS, ["-lm"])))
    node, fabric, link, bell = c_void_p, c_void_p, c_void_p, c_void_p
    signatures: Signatures = {
        "link_bytes": (c_size_t, c_uint32, c_uint32),
        "node_open": (node, bell, c_uint32, c_uint32),
        "node_close": (None, node),
        "node_hear": (c_int, node, link),
        "node_reach": (c_int, node, c_uint32, link, bell, c_bool, c_char_p, c_char_p),
        "bell_ring": (None, bell),
        "fabric_open": (fabric, bell),
        "fabric_close": (None, fabric),
        "fabric_switch": (c_int, fabric, node, POINTER(SwitchCalls)),
        "fabric_server": (c_int, fabric, node, c_void_p, POINTER(EngineCalls)),
        "fabric_run": (None, fabric),
        "fabric_stop": (None, fabric),
        "stage_values": (c_size_t, c_uint32),
        "largest": (None, c_void_p, c_uint64, c_uint32, c_void_p),
        "reduction_run": (c_int, POINTER(Reduction), c_double),
    }
    declare(library, signatures)
    return library


class Memory:
    """The bells and links of a group, in memory that its ranks share.

    ``descriptor``: that of the memory that rank 0 has made; None makes the memory.
    """

    def __init__(self, wiring: Wiring, descriptor: int | None = None) -> None:
        self._wiring = wiring
        # Room for a window, and for retransmissions while the other end gets no processor time.
        self._frames = 2 << (wiring.window - 1).bit_length()
        self._full = Framing(wiring.values).frame
        self._link_bytes = int(core().link_bytes(self._frames, self._full))
        self._links = {ends: number for number, ends in enumerate(wiring.links)}
        size = self._link(len(self._links))
        self.descriptor = descriptor
        if descriptor is None:
            self.descriptor = os.memfd_create("ina-testbed", os.MFD_CLOEXEC)
            os.ftruncate(self.descriptor, size)
        assert self.descriptor is not None
        self._map = mmap.mmap(self.descriptor, size)
        self._start = ctypes.addressof(ctypes.c_char.from_buffer(self._map))

    def close(self) -> None:
        """Close the descriptor, which other ranks no longer need. The memory itself ends with the
        last process that has mapped it."""
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None

    def bell(self, node: str) -> int:
        """The address of the bell at which ``node`` sleeps: a worker's own bell, or that of the
        fabric."""
        workers = self._wiring.workers
        number = workers.index(node) if node in workers else len(workers)
        return self._start + number * _BELL

    def node(self, name: str) -> int:
        """A node with its links, as a C pointer. Raises MemoryError."""
        library = core()
        node = _made(library.node_open(self.bell(name), self._frames, self._full))
        own = self._wiring.addresses[name]
        # Rank 0's links come last: its process runs the switches, so it must not end while others
        # lack a sum that it already has.
        workers = self._wiring.workers
        for (source, to), number in sorted(
            self._links.items(), key=lambda each: each[0][1] == workers[0]
        ):
            link = self._start + self._link(number)
            if to == name and library.node_hear(node, link):
                raise MemoryError
            if source == name:
                there = self._wiring.addresses[to]
                frames = [
                    headers(own, there, wire.HEADER_BYTES + size)
                    for size in (4 * self._wiring.values, 0)
                ]
                address = int.from_bytes(socket.inet_aton(there.ip), sys.byteorder)
                to_host = to in self._wiring.roles
                if library.node_reach(node, address, link, self.bell(to), to_host, *frames):
                    raise MemoryError
        return node

    def _link(self, number: int) -> int:
        """The offset at which a link begins."""
        return (len(self._wiring.workers) + 1) * _BELL + number * self._link_bytes


def headers(source: Address, to: Address, size: int) -> bytes:
    """Ethernet, IPv4 and UDP headers of an INA packet of ``size`` bytes."""
    link, udp = np.zeros(1, LINK), np.zeros(1, UDP)
    link["to_mac"], link["from_mac"] = (np.void(end.mac.to_bytes(6, "big")) for end in (to, source))
    link["type"], link["version_ihl"], link["ttl"] = IPV4, VERSION_AND_LENGTH, 64
    link["length"], link["fragment"], link["protocol"] = 28 + size, _WHOLE, PROTOCOL_UDP
    link["src"], link["dst"] = (int(IPv4Address(end.ip)) for end in (source, to))
    set_checksum(link)
    udp["sport"] = udp["dport"] = wire.PORT
    udp["length"] = 8 + size
    return bytes(Packet(link, udp))


def _made(pointer: int | None) -> int:
    if pointer is None:
        raise MemoryError
    return pointer
