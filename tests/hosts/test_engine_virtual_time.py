"""Engines on a virtual clock: queues and losses, the same in every run."""

from __future__ import annotations

from contextlib import ExitStack

import numpy as np
import pytest
from ina_loopback import SLOT, TREE, drawn
from star import Star

from testbed import wire
from testbed.hosts.aggregation import Engine, Operation
from testbed.protocols import on_trees
from testbed.protocols.roles import Child, Member, Root

WORKERS, ROOT = 8, "10.0.0.100"
SUMMED = [each for each in on_trees().values() if each.name in ("atp", "switchml")]
every_one_summed = pytest.mark.parametrize("protocol", SUMMED, ids=lambda each: each.name)


def address(rank: int) -> str:
    return f"10.0.0.{rank + 1}"


def all_reduce(
    protocol, fragments: int, window: int, pace, loss=0.0, seed=1, unfilled=0
) -> tuple[float, int]:
    """An all-reduce of all workers at a root that serves, with its sums checked. Returns the
    seconds that it took, and the number of retransmitted fragments. ``unfilled`` values of the last
    fragment are empty."""
    shares = protocol.shares_slots
    slots = list(range(SLOT, SLOT + window)) if shares else [SLOT]
    children = tuple(Child(address(rank), frozenset({rank})) for rank in range(WORKERS))
    workers = {rank: address(rank) for rank in range(WORKERS)}
    with ExitStack() as stack:
        engines = {at: stack.enter_context(Engine()) for at in (*workers.values(), ROOT)}
        engines[ROOT].add(
            Root(TREE, protocol, window, [] if shares else [SLOT], children, True, workers)
        )
        values = [drawn(fragments * wire.VALUES, seed=rank) // WORKERS for rank in workers]
        total = np.sum(values, axis=0, dtype=np.int32)
        filled = total.size - unfilled
        star = Star(engines, workers.values(), pace, loss, seed)
        for rank, at in workers.items():
            engines[at].add(Member(TREE, protocol, window, slots, rank, ROOT))
            engines[at].push(0, Operation.ALL_REDUCE, values[rank].ctypes.data, filled)
            star.pump(at)
        members = [engines[at] for at in workers.values()]
        took = star.run(lambda: all(each.done(0) == fragments for each in members), 1000)
        for rank, each in enumerate(values):
            np.testing.assert_array_equal(each[:filled], total[:filled])
            behind = drawn(total.size, seed=rank)[filled:] // WORKERS
            np.testing.assert_array_equal(each[filled:], behind)
        return took, sum(each.counters(0).retransmitted for each in members)


def sequence_of(packet: bytes) -> int:
    return int(np.frombuffer(packet[: wire.HEADER_BYTES], wire.HEADER)["sequence"][0])


@every_one_summed
@pytest.mark.parametrize(("window", "seconds"), [(16, 0.016), (64, 0.004), (234, 0.0027)])
def test_what_waits_in_a_queue_is_not_sent_again(protocol, window, seconds):
    """The first fragments find an empty queue, the others the rest of a window in it."""
    fragments = 4 * window
    took, again = all_reduce(
        protocol, fragments, window, lambda packet: seconds if sequence_of(packet) > 1 else 1e-4
    )
    # Each worker may send a probe or two before the first long round trip is over.
    assert again <= max(3 * WORKERS, 0.01 * fragments * WORKERS)
    assert took <= 1.1 * fragments * seconds


@every_one_summed
@pytest.mark.parametrize(("window", "loss", "longest"), [(1, 0.05, 0.15), (16, 0.1, 0.005)])
def test_losses_on_all_links_do_not_make_silences_ever_longer(protocol, window, loss, longest):
    """All wait for one another's retransmissions, and almost every fragment is affected."""
    fragments = 400
    took, again = all_reduce(protocol, fragments, window, lambda _: 1e-4, loss)
    assert again >= loss * fragments * WORKERS
    assert took <= longest * fragments


@every_one_summed
@pytest.mark.parametrize("unfilled", [1, 100, wire.VALUES - 1])
@pytest.mark.parametrize("fragments", [1, 3, 40])
def test_a_last_packet_may_be_partly_filled(protocol, unfilled, fragments):
    """Memory behind a chunk is neither read nor changed."""
    all_reduce(protocol, fragments, 16, lambda _: 1e-4, 0.02, unfilled=unfilled)


@pytest.mark.parametrize("protocol", on_trees().values(), ids=lambda each: each.name)
def test_a_chunk_that_others_have_not_come_to_is_asked_for_one_at_a_time(protocol):
    """Rina's ranks wait for one another for many round trips without any loss."""
    if protocol.port != wire.PORT:
        pytest.skip("its messages are asked for by their receiver")
    if protocol.skips_zeros:
        pytest.skip("it sums for all alone; test_lanes_packets.py")
    window, now = 64, 1000.0
    slots = list(range(SLOT, SLOT + window)) if protocol.shares_slots else [SLOT]
    values = drawn(2 * window, wire.VALUES)
    with Engine() as engine:
        engine.add(Member(TREE, protocol, window, slots, 0, ROOT))
        for chunk in (values[:window], values[window:]):
            engine.push(0, Operation.REDUCE, chunk.ctypes.data, chunk.size)
        engine.pump(now)
        sent = [packet for _, packet in engine.packets()]
        for packet in sent[:window]:
            now += 0.001
            answer = np.frombuffer(packet[: wire.HEADER_BYTES], wire.HEADER).copy()
            answer["kind"] = wire.KIND_ACK
            engine.take(answer.tobytes(), now)
            due = engine.pump(now)
        end = now + 2
        while due < end:
            now = max(due, now + 1e-6)
            due = engine.pump(now)
            list(engine.packets())
        assert engine.done(0) == window
        assert 2 <= engine.counters(0).retransmitted <= 12
