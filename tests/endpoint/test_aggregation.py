"""The engine's endpoints against each other, over loopback, with and without a hostile network."""

from __future__ import annotations

import itertools
import os
import threading
import time
from contextlib import ExitStack

import numpy as np
import pytest

from testbed.dataplane import wire
from testbed.endpoint.aggregation import Child, Endpoint, Member, Operation, Root, Wake
from testbed.plan.trees import Style

# Ports are fixed, so the loopback addresses are this process's own.
NET = f"127.{os.getpid() // 250 % 250 + 2}.{os.getpid() % 250}"
ROOT = f"{NET}.200"
WORKERS = 3
TREE = 7


def member(rank: int, style: Style, window: int, parent: str = ROOT) -> Member:
    slots = list(range(window)) if style is Style.ATP else [100]
    return Member(TREE, style, window, slots, rank, parent)


def address(rank: int) -> str:
    return f"{NET}.{rank + 1}"


def root(style: Style, window: int, serves: bool, **options) -> Root:
    children = tuple(Child(address(rank), frozenset({rank})) for rank in range(WORKERS))
    workers = {rank: address(rank) for rank in range(WORKERS)}
    slots = [] if style is Style.ATP else [100]
    return Root(TREE, style, window, slots, children, serves, workers, **options)


class Server(threading.Thread):
    """A root that answers until the ``with`` ends."""

    def __init__(self, role: Root) -> None:
        super().__init__()
        self.endpoint = Endpoint(ROOT)
        self.flow = self.endpoint.add(role)
        self._order, self._told = os.pipe()

    def run(self) -> None:
        while Wake.OTHER not in self.endpoint.wait(other=self._order):
            pass

    def __enter__(self) -> Server:
        self.start()
        return self

    def __exit__(self, *_) -> None:
        os.write(self._told, b".")
        self.join()
        os.close(self._order)
        os.close(self._told)
        self.endpoint.close()


def finish(endpoint: Endpoint, flow: int, fragments: int, patience: float = 30) -> None:
    deadline = time.monotonic() + patience
    while endpoint.done(flow) < fragments:
        wake = endpoint.wait(deadline)
        assert Wake.DEADLINE not in wake, (endpoint.done(flow), endpoint.counters(flow))


def together(actions) -> None:
    """Run each action in a thread of its own; the first error is raised."""
    errors: list[BaseException] = []

    def guarded(action) -> None:
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


def push(endpoint: Endpoint, flow: int, operation: Operation, values: np.ndarray) -> None:
    assert values.dtype == np.int32 and values.flags.c_contiguous
    endpoint.push(flow, operation, values.ctypes.data, values.size // wire.VALUES)


def drawn(*shape: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(-(2**29), 2**29, shape).astype(np.int32)


@pytest.mark.parametrize("style", [Style.ATP, Style.SWITCHML])
@pytest.mark.parametrize("window", [1, 16, 200])
def test_every_worker_gets_the_exact_sum(style, window):
    fragments = [1, 5, 300, 2] if window > 1 else [1, 5, 20]
    gradients = drawn(WORKERS, sum(fragments), wire.VALUES)
    received = gradients.copy()

    def work(rank: int) -> None:
        with Endpoint(address(rank), burst=8) as endpoint:
            flow = endpoint.add(member(rank, style, window))
            for first, last in itertools.pairwise(np.cumsum([0, *fragments])):
                push(endpoint, flow, Operation.ALL_REDUCE, received[rank, first:last])
            finish(endpoint, flow, sum(fragments))

    with Server(root(style, window, serves=True)) as server:
        together([lambda rank=rank: work(rank) for rank in range(WORKERS)])
        assert server.endpoint.done(server.flow) == sum(fragments)
    for rank in range(WORKERS):
        np.testing.assert_array_equal(received[rank], gradients.sum(axis=0, dtype=np.int32))


def test_reduce_adds_to_the_root_and_multicast_replaces():
    count, window = 250, 32
    own, theirs = drawn(count, wire.VALUES), drawn(WORKERS, count, wire.VALUES, seed=2)
    sums, copies, kept = own.copy(), theirs.copy(), theirs.copy()

    def lead() -> None:
        with Endpoint(ROOT) as endpoint:
            flow = endpoint.add(root(Style.RACK, window, serves=False))
            time.sleep(0.05)  # their first window comes early
            push(endpoint, flow, Operation.REDUCE, sums)
            finish(endpoint, flow, count)
            push(endpoint, flow, Operation.MULTICAST, sums)
            finish(endpoint, flow, 2 * count)
            linger(endpoint)

    def linger(endpoint: Endpoint) -> None:
        endpoint.wait(time.monotonic() + 0.3)

    def follow(rank: int) -> None:
        with Endpoint(address(rank)) as endpoint:
            flow = endpoint.add(member(rank, Style.RACK, window))
            push(endpoint, flow, Operation.REDUCE, kept[rank])
            finish(endpoint, flow, count)
            time.sleep(0.05 * rank)  # what is sent to all comes early
            push(endpoint, flow, Operation.MULTICAST, copies[rank])
            finish(endpoint, flow, 2 * count)
            linger(endpoint)

    together([lead, *(lambda rank=rank: follow(rank) for rank in range(WORKERS))])
    np.testing.assert_array_equal(sums, own + theirs.sum(axis=0, dtype=np.int32))
    np.testing.assert_array_equal(kept, theirs)
    for rank in range(WORKERS):
        np.testing.assert_array_equal(copies[rank], sums)


def test_nothing_can_be_done_with_a_closed_endpoint():
    with ExitStack() as stack:
        endpoint = stack.enter_context(Endpoint(ROOT))
        with pytest.raises(IndexError):
            endpoint.done(0)
    with pytest.raises(ValueError, match="closed"):
        endpoint.fileno()
