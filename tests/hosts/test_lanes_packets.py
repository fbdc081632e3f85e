"""OmniReduce's hosts around a switch in virtual time: sums, and which blocks are sent."""

from __future__ import annotations

from collections import defaultdict
from contextlib import ExitStack
from dataclasses import dataclass, field

import numpy as np
import pytest
from star import Star

from testbed import wire
from testbed.hosts.aggregation import Engine, Operation
from testbed.protocols.omnireduce.protocol import PROTOCOL
from testbed.protocols.omnireduce.reference import MODEL
from testbed.protocols.reference import CHILDREN, Aggregation, Ina, Part
from testbed.protocols.roles import Member

TREE, SWITCH, WINDOW, VALUES, PACE = 7, "10.0.0.200", 8, 8, 1e-4
STARTS = (0, 5, 2**32 - 3)


def address(rank: int) -> str:
    return f"10.0.0.{rank + 1}"


@dataclass
class Switch:
    """The reference's switch, driven like an engine. ``seen``: the fragments of its sums."""

    workers: int
    own: int = 99
    seen: list[int] = field(default_factory=list)
    _left: list[tuple[str, bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._memory = Aggregation(VALUES)
        self._part = Part(
            0, MODEL, self.own, (1 << self.workers) - 1, None, (), 0, 2 * WINDOW, watch=False
        )

    def take(self, packet: bytes, _: float) -> None:
        (header,) = np.frombuffer(packet[: wire.HEADER_BYTES], wire.HEADER)
        fields = {name: int(header[name]) for name, _ in wire.FIELDS}
        values = np.frombuffer(packet[wire.HEADER_BYTES :], ">i4").astype(np.int32)
        sender = fields["bitmap"].bit_length() - 1
        ina = Ina(**fields, values=values, source=sender, to=self.own)
        self._memory.handle(self._part, ina)
        if ina.to is None:
            return
        if ina.to == CHILDREN:
            self.seen.append(ina.sequence)
        made = np.zeros(1, wire.HEADER)
        for name, _ in wire.FIELDS:
            made[name] = getattr(ina, name)
        answer = made.tobytes() + ina.values.astype(">i4").tobytes()
        to = range(self.workers) if ina.to == CHILDREN else [ina.to]
        self._left += [(address(rank), answer) for rank in to]

    def pump(self, _: float) -> float:
        return float("inf")

    def packets(self):
        left, self._left = self._left, []
        return iter(left)


def all_reduce(gradients, sizes, loss=0.0, begins=0):
    """Sums ``gradients``, int32[workers, values], pushed in chunks of ``sizes`` values; checks the
    sums. Returns the seconds, the fragments that were summed and those retransmitted."""
    workers = len(gradients)
    switch = Switch(workers)
    with ExitStack() as stack:
        engines = [stack.enter_context(Engine(VALUES, begins)) for _ in range(workers)]
        named = {address(rank): each for rank, each in enumerate(engines)}
        star = Star({**named, SWITCH: switch}, list(named), lambda _: PACE, loss)
        values = gradients.copy()
        for rank, each in enumerate(engines):
            each.add(Member(TREE, PROTOCOL, WINDOW, [0], rank, SWITCH))
            first = 0
            for size in sizes:
                part = values[rank, first : first + size]
                each.push(0, Operation.ALL_REDUCE, part.ctypes.data, size)
                first += size
            star.pump(address(rank))
        fragments = sum(-(-size // VALUES) for size in sizes)
        took = star.run(lambda: all(each.done(0) == fragments for each in engines), 200)
        total = gradients.sum(0, dtype=np.int32)
        for row in values:
            np.testing.assert_array_equal(row, total)
        again = sum(each.counters(0).retransmitted for each in engines)
    return took, switch.seen, again


def sparse(workers, fragments, density, seed=1):
    random = np.random.default_rng(seed)
    drawn = random.integers(-(2**31), 2**31, (workers, fragments, VALUES), np.int64)
    filled = random.random((workers, fragments, 1)) < density
    # Half of the others have a single value, anywhere.
    one = random.integers(0, VALUES, (workers, fragments, 1)) == np.arange(VALUES)
    filled = filled & (one | (random.random((workers, fragments, 1)) < 0.5))
    return (drawn * filled).astype(np.int32).reshape(workers, -1)


def wanted(gradients, sizes):
    """The fragments that must be sent: each lane's first of a chunk, and those that are not 0 at
    some worker."""
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
    _, seen, again = all_reduce(gradients, sizes, begins=begins)
    assert again == 0
    assert sorted((each - begins) % 2**32 for each in seen) == sorted(wanted(gradients, sizes))


@pytest.mark.parametrize("sizes", [(1, 3, 799), (40, 8, 8, 600), (7, 7, 7, 7), (520, 1, 500)])
def test_chunks_follow_one_another_in_each_lane(sizes):
    gradients = sparse(3, -(-sum(sizes) // VALUES), 0.2)[:, : sum(sizes)]
    _, seen, _ = all_reduce(gradients, sizes)
    assert sorted(seen) == sorted(wanted(gradients, sizes))


@pytest.mark.parametrize("density", [1, 0.2, 0.02])
@pytest.mark.parametrize("loss", [0.01, 0.1])
def test_what_is_lost_is_sent_again_until_all_sums_are_there(density, loss):
    gradients = sparse(4, 400, density)
    took, seen, again = all_reduce(gradients, [300 * VALUES, 100 * VALUES], loss)
    assert sorted(seen) == sorted(wanted(gradients, [300 * VALUES, 100 * VALUES]))
    assert again >= loss * len(seen)
    assert again <= 20 * loss * 4 * len(seen) + 40
    assert took <= 0.02 * len(seen) + 1


def test_time_goes_down_with_the_blocks_that_some_worker_has():
    times = {each: all_reduce(sparse(4, 2000, each), [2000 * VALUES])[0] for each in (1, 0.1)}
    union = 1 - 0.9**4
    assert times[0.1] == pytest.approx(times[1] * union, rel=0.1)


def test_a_rank_that_waits_for_others_asks_for_few_fragments():
    """The others begin later; nothing is lost."""
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
