"""Window and root against each other over loopback, with loss made in between."""

from __future__ import annotations

import os
import time

import numpy as np
import pytest

from testbed.dataplane import wire
from testbed.endpoint.batch import BatchSocket
from testbed.endpoint.root import Root, hashed_slots
from testbed.endpoint.window import Window

WORKERS = 3

# Ports are fixed, so the loopback addresses are this process's own.
NET = f"127.{os.getpid() // 250 % 250 + 2}.{os.getpid() % 250}"
ROOT = f"{NET}.200"


class LossySocket(BatchSocket):
    """Loses packets in both directions, repeats some, and delivers batches out of order."""

    def __init__(self, address: str, loss: float, seed: int) -> None:
        super().__init__(address)
        self._loss = loss
        self._random = np.random.default_rng(seed)

    def receive(self):
        packets = super().receive()
        if self._loss == 0 or not len(packets):
            return packets
        kept = packets[self._random.random(len(packets)) >= self._loss]
        again = kept[self._random.random(len(kept)) < self._loss]
        return self._random.permutation(np.concatenate([kept, again]))


def all_reduce(gradients, window: int, loss: float, iterations: int = 2):
    """Every worker's sums over ``gradients`` of shape (iterations, workers, fragments, 256)."""
    addresses = [f"{NET}.{rank + 1}" for rank in range(WORKERS)]
    sockets = [LossySocket(address, loss, seed) for seed, address in enumerate(addresses)]
    root_socket = LossySocket(ROOT, loss, 99)
    root = Root(root_socket, 7, addresses, addresses, window)
    slots = hashed_slots(7, window, 4096)
    windows = [Window(s, 7, rank, ROOT, slots) for rank, s in enumerate(sockets)]
    results = []
    try:
        for iteration in range(iterations):
            sums = [np.zeros_like(gradients[iteration, 0]) for _ in range(WORKERS)]
            for rank, each in enumerate(windows):
                each.open(gradients[iteration, rank], sums[rank])
                each.release(len(sums[rank]))
            deadline = time.monotonic() + 20
            while any(each.complete < len(sums[0]) for each in windows):
                assert time.monotonic() < deadline, [each.complete for each in windows]
                for each, socket in zip(windows, sockets, strict=True):
                    each.pump(time.monotonic())
                    each.take(socket.receive(), time.monotonic())
                root.take(root_socket.receive())
                root.flush()
            results.append(sums)
    finally:
        for socket in [*sockets, root_socket]:
            socket.close()
    return results, windows, root


@pytest.mark.parametrize("loss", [0.0, 0.02, 0.1])
@pytest.mark.parametrize("window", [1, 16, 200])
def test_every_worker_gets_the_exact_sum(loss, window, monkeypatch):
    if loss == 0:  # a busy machine must not look like loss
        monkeypatch.setattr("testbed.endpoint.window.FIRST_TIMEOUT", 60.0)
        monkeypatch.setattr("testbed.endpoint.window.LEAST_TIMEOUT", 60.0)
    random = np.random.default_rng(1)
    shape = (2, WORKERS, 120 if window > 1 else 20, wire.VALUES)
    gradients = random.integers(-(2**31), 2**31, shape).astype(">i4")
    results, windows, root = all_reduce(gradients, window, loss)
    truth = gradients.astype(np.int32).sum(axis=1, dtype=np.int32)
    for iteration, sums in enumerate(results):
        for received in sums:
            np.testing.assert_array_equal(received, truth[iteration])
    if loss == 0:
        assert sum(each.retransmitted for each in windows) == root.answered_again == 0
    else:
        assert sum(each.retransmitted for each in windows) > 0


def test_a_window_larger_than_the_memory_is_refused():
    with pytest.raises(ValueError, match="more than 64 slots"):
        hashed_slots(0, 65, 64)


@pytest.mark.parametrize("window", [1, 100, 4096])
def test_slots_of_a_window_are_distinct_and_in_memory(window):
    slots = hashed_slots(3, window, 4096)
    assert len(set(slots.tolist())) == window
    assert slots.max() < 4096
