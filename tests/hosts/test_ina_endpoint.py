"""The engine's endpoints over a network that loses, repeats and reorders packets."""

from __future__ import annotations

import itertools
import os
import signal
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from ina_loopback import (
    ROOT,
    UPWARDS,
    WORKERS,
    Relay,
    Serving,
    address,
    downwards,
    drawn,
    finish,
    member,
    push,
    root,
    together,
)
from patience import PATIENCE_S

from testbed import wire
from testbed.hosts.aggregation import Counters, Endpoint, Operation, Wake
from testbed.protocols import TreeProtocol
from testbed.protocols.atp.protocol import PROTOCOL as ATP
from testbed.protocols.netreduce.protocol import PROTOCOL as NETREDUCE
from testbed.protocols.rack.protocol import PROTOCOL as RACK
from testbed.protocols.roles import Member
from testbed.protocols.switchml.protocol import PROTOCOL as SWITCHML

ALL_REDUCE_STYLES = [ATP, SWITCHML]


def all_reduce(
    gradients: np.ndarray,
    cuts: list[int],
    style: TreeProtocol,
    window: int,
    harm: float,
    burst: int = 8,
) -> tuple[np.ndarray, list[Counters], Counters]:
    """An all-reduce in chunks of ``cuts`` fragments: the sums of every worker, the workers'
    counters, and the root's."""
    received = gradients.copy()
    seen: list[Counters] = [Counters(0, 0, 0, 0, 0)] * WORKERS

    def work(rank: int) -> None:
        with Endpoint(address(rank), burst=burst) as endpoint:
            flow = endpoint.add(member(rank, style, window, UPWARDS if harm else ROOT))
            for first, last in itertools.pairwise(np.cumsum([0, *cuts])):
                push(endpoint, flow, Operation.ALL_REDUCE, received[rank, first:last])
            finish(endpoint, flow, sum(cuts))
            seen[rank] = endpoint.counters(flow)

    with Endpoint(ROOT, burst=burst) as endpoint:
        flow = endpoint.add(root(style, window, True, downwards if harm else address))
        with Serving(endpoint):
            workers = [lambda rank=rank: work(rank) for rank in range(WORKERS)]
            if harm:
                with Relay(harm, seed=window):
                    together(*workers)
            else:
                together(*workers)
        assert endpoint.done(flow) == sum(cuts)
        return received, seen, endpoint.counters(flow)


@pytest.mark.parametrize("style", ALL_REDUCE_STYLES)
@pytest.mark.parametrize("window", [1, 16, 200])
def test_every_worker_gets_the_exact_sum(style, window):
    cuts = [1, 5, 300, 2] if window > 1 else [1, 5, 20]
    gradients = drawn(WORKERS, sum(cuts), wire.VALUES)
    received, _, _ = all_reduce(gradients, cuts, style, window, harm=0)
    for sums in received:
        np.testing.assert_array_equal(sums, gradients.sum(axis=0, dtype=np.int32))


@pytest.mark.parametrize("style", ALL_REDUCE_STYLES)
@pytest.mark.parametrize(("window", "harm"), [(64, 0.001), (64, 0.01), (64, 0.05), (8, 0.05)])
def test_loss_repetition_and_disorder_change_no_sum(style, window, harm):
    cuts = [100, 1, 499] if harm < 0.05 else [100, 1, 99]
    gradients = drawn(WORKERS, sum(cuts), wire.VALUES)
    received, seen, _ = all_reduce(gradients, cuts, style, window, harm)
    for sums in received:
        np.testing.assert_array_equal(sums, gradients.sum(axis=0, dtype=np.int32))
    if harm >= 0.01:
        assert sum(each.retransmitted for each in seen) > 0


@pytest.mark.parametrize("harm", [0, 0.01, 0.05])
def test_reduce_adds_to_the_root_and_multicast_replaces(harm):
    count, window = 250, 32
    own, theirs = drawn(count, wire.VALUES), drawn(WORKERS, count, wire.VALUES, seed=2)
    sums, kept, copies = own.copy(), theirs.copy(), theirs.copy()
    done = [False] * (WORKERS + 1)

    def linger(endpoint: Endpoint, who: int) -> None:
        done[who] = True
        while not all(done):
            endpoint.wait(time.monotonic() + 0.02)

    def lead() -> None:
        with Endpoint(ROOT) as endpoint:
            at = downwards if harm else address
            flow = endpoint.add(root(RACK, window, False, at))
            time.sleep(0.05)  # so that the members' first window arrives early
            push(endpoint, flow, Operation.REDUCE, sums)
            finish(endpoint, flow, count)
            push(endpoint, flow, Operation.MULTICAST, sums)
            finish(endpoint, flow, 2 * count)
            linger(endpoint, WORKERS)

    def follow(rank: int) -> None:
        with Endpoint(address(rank)) as endpoint:
            flow = endpoint.add(member(rank, RACK, window, UPWARDS if harm else ROOT))
            push(endpoint, flow, Operation.REDUCE, kept[rank])
            finish(endpoint, flow, count)
            time.sleep(0.05 * rank)  # so that the multicast arrives early
            push(endpoint, flow, Operation.MULTICAST, copies[rank])
            finish(endpoint, flow, 2 * count)
            linger(endpoint, rank)

    ranks = [lead, *(lambda rank=rank: follow(rank) for rank in range(WORKERS))]
    if harm:
        with Relay(harm, seed=3):
            together(*ranks)
    else:
        together(*ranks)
    np.testing.assert_array_equal(sums, own + theirs.sum(axis=0, dtype=np.int32))
    np.testing.assert_array_equal(kept, theirs)
    for copied in copies:
        np.testing.assert_array_equal(copied, sums)


def test_a_pool_wraps_around_and_tells():
    gradients = drawn(WORKERS, 40, wire.VALUES)
    gradients[:, 7, 100] = 2**31 - 5
    received, seen, served = all_reduce(gradients, [40], SWITCHML, 16, harm=0)
    for sums in received:
        np.testing.assert_array_equal(sums, gradients.sum(axis=0, dtype=np.int32))
    assert [each.overflows for each in [*seen, served]] == [1] * (WORKERS + 1)


@pytest.mark.parametrize("harm", [0, 0.05])
def test_atp_sends_floats_where_integers_are_too_narrow(harm):
    count, wide = 120, [0, 7, 8, 50, 119]
    gradients = drawn(WORKERS, count, wire.VALUES)
    gradients[0, wide, 3] = gradients[1, wide, 3] = 2**31 - 5
    received = gradients.copy()
    floats: list[np.ndarray] = [np.zeros(0)] * WORKERS

    def work(rank: int) -> None:
        with Endpoint(address(rank)) as endpoint:
            flow = endpoint.add(member(rank, ATP, 16, UPWARDS if harm else ROOT))
            push(endpoint, flow, Operation.ALL_REDUCE, received[rank])
            finish(endpoint, flow, count)
            floats[rank] = endpoint.float_sums(flow)
            assert endpoint.counters(flow).overflows == len(wide)

    with Endpoint(ROOT) as endpoint:
        flow = endpoint.add(root(ATP, 16, True, downwards if harm else address))
        workers = [lambda rank=rank: work(rank) for rank in range(WORKERS)]
        with Serving(endpoint):
            if harm:
                with Relay(harm, seed=8):
                    together(*workers)
            else:
                together(*workers)
        assert endpoint.counters(flow).overflows == len(wide)
    exact = gradients.astype(np.float32).astype(np.float64).sum(axis=0)
    narrow = np.setdiff1d(np.arange(count), wide)
    for sums, found in zip(received, floats, strict=True):
        assert sorted(found.tolist()) == wide
        np.testing.assert_array_equal(sums[narrow], gradients.sum(axis=0, dtype=np.int32)[narrow])
        np.testing.assert_array_equal(sums.view(np.float32)[wide], exact[wide].astype(np.float32))


def test_two_trees_share_an_endpoint():
    """Each rank is the root of its own tree, as in a reduce-scatter."""
    count = 60
    gradients = drawn(2, 2, count, wire.VALUES)
    sums = gradients.copy()
    done = [False, False]

    def take_part(rank: int) -> None:
        with Endpoint(address(rank), tick_s=0.001) as endpoint:
            other = 1 - rank
            whole = root(RACK, 16, False)
            child = replace(whole.children[other], address=address(other))
            own = endpoint.add(replace(whole, tree=rank, children=(child,)))
            their = endpoint.add(replace(member(rank, RACK, 16), tree=other, parent=address(other)))
            push(endpoint, own, Operation.REDUCE, sums[rank, rank])
            push(endpoint, their, Operation.REDUCE, sums[rank, other])
            finish(endpoint, own, count)
            finish(endpoint, their, count)
            done[rank] = True
            while not all(done):
                endpoint.wait(time.monotonic() + 0.02)

    together(lambda: take_part(0), lambda: take_part(1))
    for rank in range(2):
        np.testing.assert_array_equal(sums[rank, rank], gradients[0, rank] + gradients[1, rank])


class TestWait:
    def test_comes_back_at_the_deadline(self):
        with Endpoint(ROOT) as endpoint:
            begin = time.monotonic()
            assert endpoint.wait(begin + 0.6) == Wake.DEADLINE
            assert time.monotonic() - begin >= 0.6
            assert endpoint.wait(begin) == Wake.DEADLINE

    def test_a_tick_is_cut_by_the_deadline(self):
        with Endpoint(ROOT, tick_s=60) as endpoint, Endpoint(address(0)) as sender:
            endpoint.add(root(ATP, 4, True))
            flow = sender.add(member(0, ATP, 4))
            push(sender, flow, Operation.ALL_REDUCE, drawn(1, wire.VALUES))
            sender.wait(time.monotonic())
            begin = time.monotonic()
            assert endpoint.wait(begin + 0.1) == Wake.DEADLINE
            assert time.monotonic() - begin < 30

    def test_a_slower_pace_retransmits_later(self):
        sent_again = {}
        for pace in (1.0, 0.001):
            with Endpoint(address(0), pace=pace) as endpoint:
                flow = endpoint.add(member(0, ATP, 4))
                push(endpoint, flow, Operation.ALL_REDUCE, drawn(1, wire.VALUES))
                # Nobody answers. At pace 1, the first timeout is over after 0.2 s.
                assert endpoint.wait(time.monotonic() + 0.5) == Wake.DEADLINE
                sent_again[pace] = endpoint.counters(flow).retransmitted
        assert sent_again[1.0] > 0
        assert sent_again[0.001] == 0

    def test_comes_back_for_another_file(self):
        order, told = os.pipe()
        try:
            with Endpoint(ROOT) as endpoint:
                threading.Timer(0.05, os.write, (told, b".")).start()
                assert endpoint.wait(other=order) == Wake.OTHER
                assert endpoint.wait(time.monotonic(), order) == Wake.OTHER | Wake.DEADLINE
        finally:
            os.close(order)
            os.close(told)

    def test_comes_back_once_for_what_is_done(self):
        with Endpoint(ROOT) as lead, Endpoint(address(0)) as follower:
            whole = root(RACK, 8, False)
            role = replace(whole, children=whole.children[:1])
            sums = drawn(3, wire.VALUES)
            leading, following = lead.add(role), follower.add(member(0, RACK, 8))
            push(lead, leading, Operation.REDUCE, sums)
            push(follower, following, Operation.REDUCE, sums.copy())
            follower.wait(time.monotonic())
            assert lead.wait(time.monotonic() + PATIENCE_S) == Wake.PROGRESS
            assert lead.done(leading) == 3
            assert lead.wait(time.monotonic() + 0.01) == Wake.DEADLINE
            assert follower.wait(time.monotonic() + PATIENCE_S) == Wake.PROGRESS

    def test_handles_signals(self):
        def stop(*_) -> None:
            raise InterruptedError("stopped")

        before = signal.signal(signal.SIGUSR1, stop)
        try:
            with Endpoint(ROOT) as endpoint:
                threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR1)).start()
                with pytest.raises(InterruptedError, match="stopped"):
                    endpoint.wait(time.monotonic() + PATIENCE_S)
        finally:
            signal.signal(signal.SIGUSR1, before)


class TestMistakes:
    def test_a_closed_endpoint(self):
        with Endpoint(ROOT) as endpoint, pytest.raises(IndexError):
            endpoint.done(0)
        with pytest.raises(ValueError, match="closed"):
            endpoint.fileno()

    def test_an_address_in_use(self):
        with Endpoint(ROOT), pytest.raises(OSError, match=rf"{ROOT}:{wire.PORT}"):
            Endpoint(ROOT)

    def test_a_tree_twice(self):
        with Endpoint(ROOT) as endpoint:
            endpoint.add(root(ATP, 4, True))
            with pytest.raises(OSError, match="tree 7"):
                endpoint.add(root(ATP, 4, True))

    def test_a_server_pushes_nothing(self):
        with Endpoint(ROOT) as endpoint:
            flow = endpoint.add(root(ATP, 4, True))
            with pytest.raises(OSError, match="REDUCE of 256 values"):
                push(endpoint, flow, Operation.REDUCE, drawn(1, wire.VALUES))

    @pytest.mark.parametrize(
        ("style", "window", "slots", "message"),
        [
            (ATP, 4, [1, 2, 3], "3 slots for protocol atp, which needs 4"),
            (SWITCHML, 4, [1, 2], "2 slots for protocol switchml, which needs 1"),
            (RACK, 0, [1], "a window of 0 fragments"),
            (NETREDUCE, 4, [1], "netreduce is not spoken"),
        ],
    )
    def test_slots_that_do_not_fit(self, style, window, slots, message):
        with Endpoint(ROOT) as endpoint, pytest.raises(ValueError, match=message):
            endpoint.add(Member(7, style, window, slots, 0, ROOT))

    def test_a_bit_that_no_packet_has(self):
        with Endpoint(ROOT) as endpoint, pytest.raises(ValueError, match="bit 64"):
            endpoint.add(member(64, SWITCHML, 4))
