"""INA endpoints on loopback addresses, and a relay that disturbs their packets."""

from __future__ import annotations

import os
import selectors
import socket
import threading
import time
from collections.abc import Callable, Sequence
from weakref import WeakKeyDictionary

import numpy as np
from patience import PATIENCE_S

from testbed import wire
from testbed.hosts.aggregation import Endpoint, Engine, Operation, Wake
from testbed.protocols import TreeProtocol
from testbed.protocols.roles import Child, Member, Root

# Ports are fixed, so each process uses its own loopback addresses.
NET = f"127.{os.getpid() // 250 % 250 + 2}.{os.getpid() % 250}"
ROOT = f"{NET}.200"
UPWARDS = f"{NET}.201"
WORKERS = 3
TREE = 7
SLOT = 100
HELD = 20

_pushed: WeakKeyDictionary[Engine, list[np.ndarray]] = WeakKeyDictionary()


def address(rank: int) -> str:
    return f"{NET}.{rank + 1}"


def downwards(rank: int) -> str:
    """The address at which a relay receives the root's packets to a rank."""
    return f"{NET}.{rank + 101}"


def member(rank: int, style: TreeProtocol, window: int, parent: str = ROOT) -> Member:
    slots = list(range(SLOT, SLOT + window)) if style.shares_slots else [SLOT]
    return Member(TREE, style, window, slots, rank, parent)


def root(
    style: TreeProtocol,
    window: int,
    serves: bool,
    at: Callable[[int], str] = address,
    spare: Sequence[int] = (),
) -> Root:
    children = tuple(Child(at(rank), frozenset({rank})) for rank in range(WORKERS))
    workers = {rank: at(rank) for rank in range(WORKERS)}
    slots = spare if style.shares_slots else [SLOT]
    return Root(TREE, style, window, slots, children, serves, workers)


def drawn(*shape: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(-(2**29), 2**29, shape).astype(np.int32)


def push(engine: Engine, flow: int, operation: Operation, values: np.ndarray) -> None:
    """Push an array, and keep it as long as the engine."""
    assert values.dtype == np.int32 and values.flags.c_contiguous
    _pushed.setdefault(engine, []).append(values)
    engine.push(flow, operation, values.ctypes.data, values.size)


def finish(endpoint: Endpoint, flow: int, fragments: int, patience: float = PATIENCE_S) -> None:
    """Wait until ``fragments`` are done."""
    deadline = time.monotonic() + patience
    while endpoint.done(flow) < fragments:
        wake = endpoint.wait(deadline)
        assert Wake.DEADLINE not in wake, (endpoint.done(flow), endpoint.counters(flow))


def together(*actions: Callable[[], None]) -> None:
    """Run each action in its own thread, and raise the first error."""
    errors: list[BaseException] = []

    def guarded(action: Callable[[], None]) -> None:
        try:
            action()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(action,)) for action in actions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


class Serving(threading.Thread):
    """Lets an endpoint answer packets until the ``with`` ends."""

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__()
        self._endpoint = endpoint
        self._order, self._told = os.pipe()

    def run(self) -> None:
        while Wake.OTHER not in self._endpoint.wait(other=self._order):
            pass

    def __enter__(self) -> Serving:
        self.start()
        return self

    def __exit__(self, *_) -> None:
        os.write(self._told, b".")
        self.join()
        os.close(self._order)
        os.close(self._told)


def bound(to: str) -> socket.socket:
    """A plain socket instead of an endpoint."""
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    made.bind((to, wire.PORT))
    return made


class Relay(threading.Thread):
    """Forwards packets between members and root. It loses a share ``harm`` of them, repeats as many
    and delays as many.

    A delayed packet leaves after some of the following packets, fewer than ``HELD``.
    """

    def __init__(self, harm: float, seed: int) -> None:
        super().__init__()
        self.passed = self.lost = 0
        self._harm = harm
        self._random = np.random.default_rng(seed)
        self._ways = [(bound(UPWARDS), ROOT)]
        self._ways += [(bound(downwards(rank)), address(rank)) for rank in range(WORKERS)]
        self._delayed: list[tuple[int, bytes, socket.socket, str]] = []
        self._over = False

    def __enter__(self) -> Relay:
        self.start()
        return self

    def __exit__(self, *_) -> None:
        self._over = True
        self.join()
        for way, _to in self._ways:
            way.close()

    def run(self) -> None:
        with selectors.DefaultSelector() as selector:
            for way, to in self._ways:
                way.setblocking(False)
                selector.register(way, selectors.EVENT_READ, to)
            while not self._over:
                for key, _ in selector.select(0.02):
                    self._carry(key.fileobj, key.data)

    def _carry(self, way: socket.socket, to: str) -> None:
        for _ in range(64):
            try:
                packet = way.recv(2048)
            except BlockingIOError:
                return
            lost, repeated, delayed = self._random.random(3) < self._harm
            self.passed += 1
            self.lost += bool(lost)
            if lost:
                continue
            if delayed:
                due = self.passed + int(self._random.integers(1, HELD))
                self._delayed.append((due, packet, way, to))
            else:
                way.sendto(packet, (to, wire.PORT))
            if repeated:
                way.sendto(packet, (to, wire.PORT))
            for each in [each for each in self._delayed if each[0] <= self.passed]:
                self._delayed.remove(each)
                each[2].sendto(each[1], (each[3], wire.PORT))
