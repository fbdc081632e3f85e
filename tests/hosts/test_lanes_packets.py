"""OmniReduce's hosts around a switch in virtual time: sums, and which blocks are sent."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from under_one_switch import STARTS, SWITCH, TREE, VALUES, WINDOW, all_reduce

from testbed import wire
from testbed.hosts.aggregation import Engine, Operation
from testbed.protocols.omnireduce.protocol import PROTOCOL
from testbed.protocols.roles import Member

LANES = 64


def sparse(workers, fragments, density, seed=1):
    random = np.random.default_rng(seed)
    drawn = random.integers(-(2**31), 2**31, (workers, fragments, VALUES), np.int64)
    filled = random.random((workers, fragments, 1)) < density
    # Half of the others have a single value, anywhere.
    one = random.integers(0, VALUES, (workers, fragments, 1)) == np.arange(VALUES)
    filled = filled & (one | (random.random((workers, fragments, 1)) < 0.5))
    return (drawn * filled).astype(np.int32).reshape(workers, -1)


def wanted(gradients, sizes):
    """The fragments that must be sent: each lane's first of a chunk, and all that are not 0 at some
    worker."""
    found, first, fragment = set(), 0, 0
    for size in sizes:
        for at in range(-(-size // VALUES)):
            block = gradients[:, first + at * VALUES : min(first + (at + 1) * VALUES, first + size)]
            if at < WINDOW or block.any():
                found.add(fragment + at)
        first, fragment = first + size, fragment + -(-size // VALUES)
    return found


@pytest.mark.parametrize("density", [1, 0.4, 0.1, 0.01, 0])
@pytest.mark.parametrize("begins", STARTS)
def test_blocks_that_are_zero_everywhere_are_not_sent(density, begins):
    gradients = sparse(4, 200, density)
    sizes = [200 * VALUES]
    _, seen, again = all_reduce(PROTOCOL, gradients, sizes, begins=begins)
    assert again == 0
    assert sorted((each - begins) % 2**32 for each in seen) == sorted(wanted(gradients, sizes))


@pytest.mark.parametrize("sizes", [(1, 3, 799), (40, 8, 8, 600), (7, 7, 7, 7), (520, 1, 500)])
def test_chunks_follow_one_another_in_each_lane(sizes):
    gradients = sparse(3, -(-sum(sizes) // VALUES), 0.2)[:, : sum(sizes)]
    _, seen, _ = all_reduce(PROTOCOL, gradients, sizes)
    assert sorted(seen) == sorted(wanted(gradients, sizes))


@pytest.mark.parametrize("density", [1, 0.2, 0.02])
@pytest.mark.parametrize("loss", [0.01, 0.1])
def test_what_is_lost_is_sent_again_until_all_sums_are_there(density, loss):
    gradients = sparse(4, 400, density)
    took, seen, again = all_reduce(PROTOCOL, gradients, [300 * VALUES, 100 * VALUES], loss)
    assert sorted(seen) == sorted(wanted(gradients, [300 * VALUES, 100 * VALUES]))
    assert again >= loss * len(seen)
    assert again <= 20 * loss * 4 * len(seen) + 40
    assert took <= 0.02 * len(seen) + 1


def test_time_goes_down_with_the_blocks_that_some_worker_has():
    times = {
        each: all_reduce(PROTOCOL, sparse(4, 2000, each), [2000 * VALUES])[0] for each in (1, 0.1)
    }
    union = 1 - 0.9**4
    assert times[0.1] == pytest.approx(times[1] * union, rel=0.1)


def test_a_rank_that_waits_for_others_asks_for_few_fragments():
    """The others begin later; no packet is lost."""
    with Engine(VALUES) as engine:
        engine.add(Member(TREE, PROTOCOL, 64, [0], 0, SWITCH))
        values = np.ones(640 * VALUES, np.int32)
        engine.push(0, Operation.ALL_REDUCE, values.ctypes.data, values.size)
        due, now = engine.pump(1000.0), 1000.0
        counted = defaultdict(int)
        while now < 1002:
            for _, packet in engine.packets():
                counted[packet[: wire.HEADER_BYTES]] += 1
            now = max(due, now + 1e-6)
            due = engine.pump(now)
        assert len(counted) == 64
        assert engine.counters(0).retransmitted <= 1 + 2 + 4 + 8  # after 0.2, 0.6, 1.4, ... s


def _sum(fragment):
    made = np.zeros(1, wire.HEADER)
    made["kind"], made["tree"], made["sequence"] = wire.KIND_RESULT, TREE, fragment
    made["slot"], made["next_slot"] = fragment % (2 * LANES), fragment + LANES
    return made.tobytes() + bytes(4 * VALUES)


def _sent_again(times, until):
    """Which fragments a host sends again, and how many times in total, up to ``until`` seconds
    after it began. One fragment in each lane leaves at once; those in ``times`` are answered at
    these times."""
    with Engine(VALUES) as engine:
        engine.add(Member(TREE, PROTOCOL, LANES, [0], 0, SWITCH))
        values = np.ones(LANES * VALUES, np.int32)
        engine.push(0, Operation.ALL_REDUCE, values.ctypes.data, values.size)
        due = engine.pump(1000.0)
        assert len(list(engine.packets())) == LANES
        again = set()
        for fragment, at in [*times.items(), (None, until)]:
            while due < 1000.0 + at:
                due = engine.pump(due)
                again.update(_fragments(engine))
            if fragment is not None:
                engine.take(_sum(fragment), 1000.0 + at)
                due = engine.pump(1000.0 + at)
                again.update(_fragments(engine))
        return again, engine.counters(0).retransmitted


def _fragments(engine):
    for _, packet in engine.packets():
        (header,) = np.frombuffer(packet[: wire.HEADER_BYTES], wire.HEADER)
        yield int(header["sequence"])


@pytest.mark.parametrize("pause", [0.05, 0.1, 0.2])
def test_a_queue_longer_than_any_round_trip_is_no_loss(pause):
    """A link takes 3 ms per packet. The answers pause, so that a probe is sent. The answer to the
    probed fragment's first sending comes soon after, and does not show that anything else is
    lost."""
    times = {each: 0.005 + 0.003 * each + (pause if each >= 8 else 0) for each in range(LANES)}
    again, count = _sent_again(times, until=max(times.values()))
    assert 1 <= count <= 3
    assert again <= set(range(8, 12))


def test_what_is_missing_after_the_answer_to_a_probe_is_sent_again():
    """All packets after the eighth are lost."""
    times = {each: 0.005 + 0.003 * each for each in range(8)}
    again, _ = _sent_again({**times, 8: 0.1}, until=1.0)
    assert again == set(range(8, LANES))


def test_nonsense_changes_nothing():
    with Engine(VALUES) as engine:
        engine.add(Member(TREE, PROTOCOL, WINDOW, [0], 0, SWITCH))
        values = np.arange(1, 33 * VALUES + 1, dtype=np.int32)
        before = values.copy()
        engine.push(0, Operation.ALL_REDUCE, values.ctypes.data, values.size)
        engine.pump(1.0)
        list(engine.packets())
        for sequence, following in ((0, 0), (0, 7), (0, 2**31), (0, 40), (8, 16), (99, 107)):
            made = np.zeros(1, wire.HEADER)
            made["kind"], made["tree"] = wire.KIND_RESULT, TREE
            made["sequence"], made["next_slot"] = sequence, following
            engine.take(made.tobytes() + bytes(4 * VALUES), 1.1)
        assert (values == before).all()
        made["sequence"], made["next_slot"] = 0, 8
        engine.take(made.tobytes() + bytes(4 * VALUES), 1.1)
        assert not values[:VALUES].any()
