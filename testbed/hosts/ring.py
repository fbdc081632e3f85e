"""A rank's connections on NetReduce's ring, over RoCEv2: the C engine's other half.

It sends its gradients to the next rank, and what it receives from the rank before is, switches
being in the way, the sum. The hosts mend losses: acknowledgements are cumulative, what was
overtaken is asked for by its number.
"""

from __future__ import annotations

import ctypes
import math
import os
import socket
from ctypes import POINTER, c_double, c_int, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p
from functools import cache

from testbed import wire
from testbed.hosts.aggregation import Wake, load
from testbed.protocols.roles import Neighbours


class _Role(ctypes.Structure):
    _fields_ = (
        ("tree", c_uint16),
        ("rank", c_uint8),
        ("to", c_uint32),
        ("after", c_uint32),
        ("before", c_uint32),
        ("outgoing", c_uint32),
        ("incoming", c_uint32),
        ("message", c_uint32),
        ("window", c_uint32),
    )


class RingEndpoint:
    """The socket of ``neighbours``' rank at ``address``; see ``aggregation.Endpoint``."""

    def __init__(
        self,
        address: str,
        neighbours: Neighbours,
        tick_s: float = 0.0,
        values: int = wire.VALUES,
    ) -> None:
        if not 1 <= neighbours.window <= wire.LIVE_MESSAGES:
            raise ValueError(
                f"a window of {neighbours.window} messages, wanted 1 to {wire.LIVE_MESSAGES}"
            )
        self.values = values
        self._library = _library(values)
        self._ring: int | None = None
        role = _Role(
            neighbours.tree,
            neighbours.rank,
            _network_order(neighbours.to),
            _network_order(neighbours.after),
            _network_order(neighbours.before),
            wire.connection(neighbours.tree, neighbours.rank),
            wire.connection(neighbours.tree, neighbours.rank_before),
            neighbours.message,
            neighbours.window,
        )
        error = c_int()
        self._ring = self._library.ring_open(
            _network_order(address), ctypes.byref(role), tick_s, ctypes.byref(error)
        )
        if self._ring is None:
            raise OSError(error.value, f"{os.strerror(error.value)} ({address}:{wire.ROCE_PORT})")

    def close(self) -> None:
        if self._ring is not None:
            self._library.ring_close(self._ring)
            self._ring = None

    def push(self, address: int, fragments: int) -> None:
        """The next ``fragments`` are at ``address``: native int32, which the sum replaces."""
        status = self._library.ring_push(self._ring, address, fragments)
        if status < 0:
            raise OSError(-status, os.strerror(-status))

    def done(self) -> int:
        """Fragments from the first that are here and that the next rank has as well."""
        return int(self._library.ring_done(self._ring))

    @property
    def retransmitted(self) -> int:
        return int(self._library.ring_retransmitted(self._ring))

    def wait(self, deadline: float | None = None, other: int = -1) -> Wake:
        """As ``aggregation.Endpoint.wait``."""
        until = math.inf if deadline is None else deadline
        while True:
            reasons = self._library.ring_wait(self._ring, until, other)
            if reasons < 0:
                raise OSError(-reasons, f"{os.strerror(-reasons)} (RoCE socket)")
            if reasons > 0:
                return Wake(reasons)


@cache
def _library(values: int) -> ctypes.CDLL:
    library = load(values)
    ring = c_void_p
    signatures = {
        "open": (c_void_p, c_uint32, POINTER(_Role), c_double, POINTER(c_int)),
        "close": (None, ring),
        "push": (c_int, ring, c_void_p, c_uint64),
        "done": (c_uint64, ring),
        "retransmitted": (c_uint64, ring),
        "wait": (c_int, ring, c_double, c_int),
    }
    for name, (result, *arguments) in signatures.items():
        function = getattr(library, f"ring_{name}")
        function.restype, function.argtypes = result, arguments
    return library


def _network_order(address: str) -> int:
    return int.from_bytes(socket.inet_aton(address), "little")
