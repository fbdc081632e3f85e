"""One engine whose peer is the test: the test sends and receives single packets, on a virtual
clock."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ina_loopback import SLOT, TREE, address, drawn, member, push, root

from testbed import wire
from testbed.hosts.aggregation import Engine, Operation
from testbed.protocols import TreeProtocol
from testbed.protocols.atp.protocol import PROTOCOL as ATP
from testbed.protocols.rack.protocol import PROTOCOL as RACK
from testbed.protocols.switchml.protocol import PROTOCOL as SWITCHML

WINDOW = 16
PACKET_BYTES = wire.HEADER_BYTES + 4 * wire.VALUES
AHEAD = 7  # windows, as in engine/flow.h
EVERYONE = 0b111
MOMENT = 1e-5  # seconds between what the test sends and what it sends next


def packet(kind: int, sequence: int, ranks: int, values=None, **header) -> bytes:
    made = np.zeros(1, wire.PACKET if values is not None else wire.HEADER)
    fields = {"tree": TREE, "sequence": sequence, "bitmap": ranks, "kind": kind, **header}
    for name, value in fields.items():
        made[name] = value
    if values is not None:
        made["values"] = values
    return made.tobytes()


def parsed(data: bytes) -> np.void:
    assert len(data) in (wire.HEADER_BYTES, PACKET_BYTES)
    return np.frombuffer(data, wire.PACKET if len(data) > wire.HEADER_BYTES else wire.HEADER)[0]


def sequences(packets) -> list[int]:
    return [int(each["sequence"]) for each in packets]


def fresh_are_all_that_may_go(order, answered, window: int, count: int) -> bool:
    """Whether every fragment with a free slot has been sent, up to the limit ahead of a gap."""
    lowest = next(s for s in range(count + 1) if s not in answered)
    may = range(min(lowest + AHEAD * window, count))
    return {s for s in may if s < window or s - window in answered} <= set(order)


class Played:
    """A member or a root under test, and the test's clock."""

    def __init__(self, engine: Engine, flow: int) -> None:
        self.engine, self.flow, self.now = engine, flow, 1000.0

    def hear(self, *packets: bytes, after: float = 0.0) -> list[np.void]:
        """Send it packets, and return what it sends at once and within ``after`` seconds."""
        for each in packets:
            self.engine.take(each, self.now)
        end, sent = self.now + after, []
        while (due := self.engine.pump(self.now)) <= end:
            sent += self._sent()
            self.now = max(due, self.now + 1e-6)
        sent += self._sent()
        self.now = end + MOMENT
        return sent

    def hear_of_silence(self) -> list[np.void]:
        """Let time pass until it sends something, and return that."""
        while not (sent := self._sent()):
            due = self.engine.pump(self.now)
            assert due < np.inf
            self.now = max(due, self.now + 1e-6)
        return sent

    def _sent(self) -> list[np.void]:
        return [parsed(packet) for _, packet in self.engine.packets()]


@contextmanager
def a_member(
    style: TreeProtocol, values: np.ndarray, operation=Operation.ALL_REDUCE, window=WINDOW
) -> Iterator[Played]:
    with Engine() as engine:
        flow = engine.add(member(1, style, window))
        push(engine, flow, operation, values)
        yield Played(engine, flow)


@contextmanager
def a_root(style: TreeProtocol, serves: bool, spare=()) -> Iterator[Played]:
    """A root whose children are all at one address."""
    with Engine() as engine:
        yield Played(
            engine, engine.add(root(style, WINDOW, serves, lambda rank: address(0), spare))
        )


STYLES = [
    (ATP, Operation.ALL_REDUCE),
    (SWITCHML, Operation.ALL_REDUCE),
    (RACK, Operation.REDUCE),
]


def through_a_queue(played: Played, operation: Operation, count: int, pace: float) -> None:
    """Answer a member in the order in which it sends, until all ``count`` fragments are done. Each
    packet takes ``pace`` seconds, except the first two."""
    waiting: deque[tuple[float, int]] = deque()
    free = 0.0
    arrived: list[np.void] = played.hear()
    while played.engine.done(played.flow) < count:
        for sequence in sequences(arrived):
            free = max(free, played.now) + (pace if sequence >= 2 else 0)
            waiting.append((free, sequence))
        due, sequence = waiting.popleft()
        arrived = played.hear(after=max(0.0, due - played.now))
        kind = wire.KIND_ACK if operation is Operation.REDUCE else wire.KIND_RESULT
        values = None if operation is Operation.REDUCE else 7
        arrived += played.hear(packet(kind, sequence, EVERYONE, values))


def result(sequence: int, values, **header) -> bytes:
    return packet(wire.KIND_RESULT, sequence, EVERYONE, values, **header)


def data(sequence: int, rank: int, values, **header) -> bytes:
    return packet(wire.KIND_DATA, sequence, 1 << rank, values, **header)


class TestMember:
    def test_sends_a_window_and_no_more(self):
        values = drawn(100, wire.VALUES)
        with a_member(ATP, values) as played:
            sent = played.hear()
            assert sequences(sent) == list(range(WINDOW))
            for s, each in enumerate(sent):
                assert each["kind"] == wire.KIND_DATA and each["flags"] == 0
                assert each["tree"] == TREE and each["bitmap"] == 0b10
                assert each["slot"] == SLOT + s
                np.testing.assert_array_equal(each["values"], values[s])

    def test_a_result_clocks_out_the_next_and_names_its_slot(self):
        values = drawn(100, wire.VALUES)
        with a_member(ATP, values) as played:
            played.hear()
            (sent,) = played.hear(result(0, 7, next_slot=4000, flags=wire.FLAG_COLLISION))
            assert sent["sequence"] == WINDOW and sent["slot"] == 4000
            assert (values[0] == 7).all()
            assert played.engine.counters(played.flow).collisions == 1

    @pytest.mark.parametrize("style", [ATP, SWITCHML])
    def test_a_hole_holds_back_its_own_slot_alone(self, style):
        with a_member(style, drawn(100, wire.VALUES)) as played:
            played.hear()
            followers = list(range(WINDOW + 1, 2 * WINDOW))
            assert sequences(played.hear(*(result(s, 7) for s in range(1, WINDOW)))) == followers
            fresh = sequences(played.hear(*(result(s, 7) for s in followers[:4])))[1:]
            # In ATP a missing fragment reduces the number in flight.
            assert fresh in (
                [s + WINDOW for s in followers[:4]],
                [s + WINDOW for s in followers[:3]],
            )
            assert played.engine.done(played.flow) == 0
            assert WINDOW in sequences(played.hear(result(0, 7)))
            assert played.engine.done(played.flow) == WINDOW

    def test_a_hole_is_left_behind_by_so_many_windows(self):
        count = (AHEAD + 2) * WINDOW
        with a_member(SWITCHML, drawn(count, wire.VALUES)) as played:
            sent = set(sequences(played.hear()))
            answered = {0}
            while open_ones := sent - answered:
                sent |= set(sequences(played.hear(*(result(s, 7) for s in open_ones))))
                answered |= open_ones
            follow_the_hole = set(range(WINDOW, count, WINDOW))
            assert sent == set(range(AHEAD * WINDOW)) - follow_the_hole
            # All later fragments are here, and none of them is requested again.
            played.hear(result(0, 7))
            assert played.engine.done(played.flow) == WINDOW

    @given(st.integers(0, 2**32), st.sampled_from([ATP, SWITCHML]))
    @settings(max_examples=40)
    def test_no_fragment_goes_before_the_one_before_it_in_its_slot_is_done(self, seed, style):
        random, window, count = Random(seed), 4, 40
        with a_member(style, drawn(count, wire.VALUES), window=window) as played:
            answered: set[int] = set()
            order: list[int] = []

            def note(packets) -> None:
                for s in sequences(packets):
                    if s not in order:
                        order.append(s)
                        assert s < window or s - window in answered

            note(played.hear())
            while len(answered) < count:
                open_ones = [s for s in order if s not in answered]
                assert 0 < len(open_ones) <= window
                chosen = random.sample(open_ones, random.randint(1, len(open_ones)))
                answered |= set(chosen)
                note(played.hear(*(result(s, 7) for s in chosen)))
                assert fresh_are_all_that_may_go(order, answered, window, count)
            assert played.engine.done(played.flow) == count

    def test_slots_of_a_pool_alternate(self):
        values = drawn(3 * WINDOW, wire.VALUES)
        with a_member(SWITCHML, values) as played:
            sent = played.hear()
            for s in range(len(values)):
                sent += played.hear(result(s, 0))
            slots = [int(each["slot"]) for each in sent]
            assert slots == [SLOT + s % (2 * WINDOW) for s in range(len(values))]

    @pytest.mark.parametrize("style", [ATP, SWITCHML])
    def test_a_gap_is_retransmitted_once(self, style):
        with a_member(style, drawn(WINDOW, wire.VALUES)) as played:
            played.hear()
            assert not played.hear(*(result(s, 7) for s in (1, 2, 3)))
            again = played.hear(result(4, 7))
            assert sequences(again) == [0]
            assert again[0]["flags"] == (wire.FLAG_RESEND if style is ATP else 0)
            assert not played.hear(result(5, 7))
            assert played.engine.counters(played.flow).retransmitted == 1

    @pytest.mark.parametrize("style", [ATP, SWITCHML])
    def test_a_gap_waits_for_an_answer_to_what_was_sent_well_after_it(self, style):
        with a_member(style, drawn(100, wire.VALUES)) as played:
            played.hear()
            at_once = played.hear(*(result(s, 7) for s in range(1, WINDOW)))
            assert sequences(at_once) == list(range(WINDOW + 1, 2 * WINDOW))
            again = played.hear(result(WINDOW + 5, 7))[0]
            assert again["sequence"] == 0
            assert again["flags"] == (wire.FLAG_RESEND if style is ATP else 0)

    @pytest.mark.parametrize("style", [ATP, SWITCHML])
    def test_silence_is_answered_ever_more_slowly(self, style):
        with a_member(style, drawn(2, wire.VALUES)) as played:
            first = played.hear()
            assert len(first) == 2
            again = played.hear(after=0.35)
            assert sequences(again) == [0, 1]
            assert not played.hear(after=0.15)  # the timeout is 0.4 s by now
            assert sequences(played.hear(after=0.6)) == [0, 1]
            if style is SWITCHML:
                assert again[0].tobytes() == first[0].tobytes()
            else:
                assert again[0]["flags"] == wire.FLAG_RESEND

    @pytest.mark.parametrize("style", [ATP, SWITCHML])
    def test_after_a_timeout_each_answer_allows_two_more(self, style):
        with a_member(style, drawn(200, wire.VALUES), window=64) as played:
            played.hear()
            again = sequences(played.hear_of_silence())
            lost = set(range(64)) - set(again)
            assert 2 <= len(again) < 16
            for sequence in again[1:]:
                found = sequences(played.hear(result(sequence, 7)))
                assert len(lost & set(found)) == 2
                lost -= set(found)
            # An answer to a first sending: the others are late, not lost.
            assert not lost & set(sequences(played.hear(result(max(lost), 7))))
            assert not lost & set(sequences(played.hear(result(again[0], 7))))

    def test_an_answer_to_what_was_sent_twice_tells_no_time(self):
        with a_member(SWITCHML, drawn(2, wire.VALUES), window=1) as played:
            played.hear()
            played.hear_of_silence()
            begin = played.now
            assert sequences(played.hear(result(0, 7))) == [1]
            played.hear_of_silence()
            # A measured round trip near zero would have reduced the timeout to 0.1 s.
            assert played.now - begin >= 0.2

    def test_a_round_trip_that_has_grown_is_seen_though_all_was_sent_twice(self):
        rounds, slow = 10, 0.2
        with a_member(SWITCHML, drawn(rounds + 1, wire.VALUES), window=1) as played:
            played.hear()
            played.hear(result(0, 7))
            again = []
            for s in range(1, rounds + 1):
                before = played.engine.counters(played.flow).retransmitted
                played.hear(after=slow)
                again.append(played.engine.counters(played.flow).retransmitted - before)
                played.hear(result(s, 7))
            assert again[0] >= 3
            assert max(again[-3:]) <= 1

    def test_the_lowest_go_whatever_else_is_in_flight(self):
        """Other ranks wait for the lowest, and the fragments in flight may wait for those ranks."""
        half = WINDOW // 2
        with a_member(ATP, drawn(100, wire.VALUES)) as played:
            played.hear()
            played.hear(*(result(s, 7) for s in range(half, WINDOW)))
            marked = [result(s, 7, flags=wire.FLAG_ECN) for s in range(half)]
            fresh = [s for s in sequences(played.hear(*marked)) if s < WINDOW + half]
            # After one halving, the second half of these fills the rest of the window.
            assert played.engine.done(played.flow) == WINDOW
            assert played.engine.counters(played.flow).ecn == half
            assert fresh == list(range(WINDOW, WINDOW + half))

    @pytest.mark.parametrize(("style", "operation"), STYLES)
    @pytest.mark.parametrize(("window", "pace"), [(64, 0.004), (16, 0.016)])
    def test_what_waits_in_a_queue_is_not_lost(self, style, operation, window, pace):
        """The first fragments find an empty queue, the others the rest of a window in it. Their
        round trips are more than a hundred times as long."""
        count = 3 * window
        with a_member(style, drawn(count, wire.VALUES), operation, window) as played:
            through_a_queue(played, operation, count, pace)
            assert played.engine.done(played.flow) == count
            assert played.engine.counters(played.flow).retransmitted <= count // 12

    def test_answers_that_waited_do_not_make_silences_longer(self):
        """A rank may wait for another rank's retransmission, which would then be even later."""
        with a_member(SWITCHML, drawn(100, wire.VALUES), window=1) as played:
            played.hear()
            for s in range(20):
                played.now += 0.01
                played.hear(result(s, 7))
            for s in range(20, 23):
                played.now += 1
                played.hear(result(s, 7))
            before = played.now
            played.hear_of_silence()
            # If the mean included these three, it would be a second.
            assert played.now - before <= 0.4

    def test_loss_and_ecn_halve_what_is_in_flight(self):
        size = 64
        with a_member(ATP, drawn(1000, wire.VALUES), window=size) as played:
            sent = played.hear()
            played.now += 0.25  # a long round trip: the second mark comes within it, too soon
            marked = played.hear(result(0, 7, flags=wire.FLAG_ECN))
            assert sequences(each for each in marked if not each["flags"]) == []
            fresh: list[int] = []
            for s in range(1, size):
                answered = played.hear(result(s, 7, flags=wire.FLAG_ECN if s == 1 else 0))
                fresh += sequences(answered)
            assert len(sent) == size
            assert size // 2 - 2 <= len(fresh) <= size // 2 + 3  # one halving, a little growth
            assert played.engine.counters(played.flow).ecn == 2

    def test_what_it_cannot_use_is_ignored(self):
        values = drawn(100, wire.VALUES)
        with a_member(ATP, values) as played:
            played.hear()
            before = values.copy()
            strange = [
                result(50, 7),  # not sent yet
                result(2**32 - 1, 7),
                result(100, 7),  # not pushed; an all-reduce's result cannot be early
                result(0, 7, tree=TREE + 1),
                data(0, 0, 7),
                packet(wire.KIND_RECEIPT, 0, 1),
                packet(wire.KIND_ACK, 0, EVERYONE),
                packet(9, 0, EVERYONE, 7),
                result(0, 7)[:-1],
                result(0, 7) + b"!",
                result(0, 7)[: wire.HEADER_BYTES],
                packet(wire.KIND_ACK, 0, EVERYONE, 7, flags=wire.FLAG_OVERFLOW),
                b"",
            ]
            assert not played.hear(*strange)
            np.testing.assert_array_equal(values, before)
            assert played.engine.done(played.flow) == 0
            played.hear(result(0, 7))
            played.hear(result(0, 8))  # the first one counts
            assert (values[0] == 7).all() and played.engine.done(played.flow) == 1

    def test_floats_on_request(self):
        values = drawn(4, wire.VALUES)
        before = values.copy()
        with a_member(ATP, values) as played:
            played.hear()
            ask = packet(wire.KIND_ACK, 2, EVERYONE, flags=wire.FLAG_OVERFLOW)
            (sent,) = played.hear(ask, ask)
            assert sent["flags"] == wire.FLAG_FLOATS and sent["sequence"] == 2
            floats = sent["values"].view(">f4")
            np.testing.assert_array_equal(floats, before[2].astype(np.float32))
            again = [each for each in played.hear(after=0.4) if each["sequence"] == 2]
            assert again[0]["flags"] == wire.FLAG_FLOATS | wire.FLAG_RESEND
            sums = np.full(wire.VALUES, 5e9, np.float32)
            sums_on_wire = sums.astype(">f4").view(">i4")
            played.hear(result(2, sums_on_wire, flags=wire.FLAG_FLOATS))
            np.testing.assert_array_equal(values[2].view(np.float32), sums)
            assert played.engine.float_sums(played.flow).tolist() == [2]

    def test_reduce_keeps_its_values_and_is_done_by_acks(self):
        values = drawn(WINDOW + 1, wire.VALUES)
        before = values.copy()
        with a_member(RACK, values, Operation.REDUCE) as played:
            played.hear()
            assert not played.hear(result(0, 7))
            assert sequences(played.hear(packet(wire.KIND_ACK, 0, EVERYONE))) == [WINDOW]
            assert played.engine.done(played.flow) == 1
            np.testing.assert_array_equal(values, before)

    def test_multicast_is_receipted_every_time(self):
        values = drawn(2, wire.VALUES)
        with a_member(RACK, values, Operation.MULTICAST) as played:
            assert not played.hear()
            early = result(2, 9)  # the third fragment is not pushed yet
            sent = played.hear(result(1, 8), result(1, 8), early)
            assert sequences(sent) == [1, 1]
            assert {int(each["kind"]) for each in sent} == {wire.KIND_RECEIPT}
            assert {int(each["slot"]) for each in sent} == {SLOT + 1}
            assert {int(each["bitmap"]) for each in sent} == {0b10}
            assert (values[1] == 8).all()
            third = drawn(1, wire.VALUES)
            push(played.engine, played.flow, Operation.MULTICAST, third)
            assert sequences(played.hear(result(0, 7))) == [2, 0]
            assert (third == 9).all()
            assert played.engine.done(played.flow) == 3
            assert sequences(played.hear(result(0, 7))) == [0]


class TestRoot:
    def test_each_contribution_counts_once(self):
        with a_root(ATP, serves=True) as played:
            merged = packet(wire.KIND_DATA, 0, 0b110, 10)
            assert not played.hear(data(0, 1, 1), data(0, 1, 1), merged)
            sent = played.hear(data(0, 0, 5, slot=77), data(0, 2, 6, slot=77))
            assert len(sent) == 3  # one for each child
            for each in sent:
                assert each["kind"] == wire.KIND_RESULT and each["bitmap"] == EVERYONE
                assert each["slot"] == each["next_slot"] == 77
                assert (each["values"] == 12).all()

    def test_atp_answers_again_who_asks_to(self):
        with a_root(ATP, serves=True) as played:
            played.hear(packet(wire.KIND_DATA, 0, EVERYONE, 3))
            assert not played.hear(data(0, 1, 1))
            (sent,) = played.hear(data(0, 1, 1, flags=wire.FLAG_RESEND))
            assert (sent["values"] == 3).all()
            assert played.engine.counters(played.flow).answered_again == 1

    def test_a_pool_answers_every_duplicate(self):
        with a_root(SWITCHML, serves=True) as played:
            played.hear(packet(wire.KIND_DATA, 0, EVERYONE, 3))
            (sent,) = played.hear(data(0, 1, 1))
            assert sent["kind"] == wire.KIND_RESULT and (sent["values"] == 3).all()

    def test_results_are_kept_for_a_window(self):
        with a_root(SWITCHML, serves=True) as played:
            complete = [packet(wire.KIND_DATA, s, EVERYONE, s) for s in range(WINDOW + 3)]
            for each in complete:
                played.hear(each)
            assert played.engine.done(played.flow) == WINDOW + 3
            assert not played.hear(data(2, 0, 1))
            assert (played.hear(data(3, 0, 1))[0]["values"] == 3).all()

    def test_collisions_move_to_spare_slots(self):
        with a_root(ATP, serves=True, spare=[900]) as played:
            slots = []
            for s, slot in enumerate([5, 6]):
                sent = played.hear(
                    packet(wire.KIND_DATA, s, EVERYONE, 0, slot=slot, flags=wire.FLAG_COLLISION)
                )
                slots.append(int(sent[0]["next_slot"]))
            assert slots == [900, 5]
            assert sent[0]["flags"] == wire.FLAG_COLLISION
            assert played.engine.counters(played.flow).collisions == 2

    def test_ecn_comes_back(self):
        with a_root(ATP, serves=True) as played:
            played.hear(data(0, 0, 1, flags=wire.FLAG_ECN))
            sent = played.hear(packet(wire.KIND_DATA, 0, 0b110, 1))
            assert sent[0]["flags"] == wire.FLAG_ECN

    def test_floats_are_asked_for_and_summed(self):
        with a_root(ATP, serves=True) as played:
            overflowed = packet(wire.KIND_DATA, 0, 0b110, 1, flags=wire.FLAG_OVERFLOW)
            asked = played.hear(overflowed, data(0, 0, 1))
            assert [(int(a["kind"]), int(a["flags"])) for a in asked] == [
                (wire.KIND_ACK, wire.FLAG_OVERFLOW)
            ] * 3
            assert not played.hear(overflowed)  # duplicated by the network
            (again,) = played.hear(data(0, 0, 1, flags=wire.FLAG_RESEND))
            assert again["kind"] == wire.KIND_ACK
            wide = np.full(wire.VALUES, 2e9, np.float32).astype(">f4").view(">i4")
            floats = [data(0, rank, wide, flags=wire.FLAG_FLOATS) for rank in range(3)]
            nonsense = packet(wire.KIND_DATA, 0, 0b110, wide, flags=wire.FLAG_FLOATS)
            assert not played.hear(floats[0], floats[0], nonsense, floats[1])
            sent = played.hear(floats[2])
            assert len(sent) == 3 and sent[0]["flags"] == wire.FLAG_FLOATS
            assert (sent[0]["values"].view(">f4") == np.float32(6e9)).all()
            resent = data(0, 1, wide, flags=wire.FLAG_FLOATS | wire.FLAG_RESEND)
            assert (played.hear(resent)[0]["values"].view(">f4") == np.float32(6e9)).all()

    def test_what_it_cannot_use_is_ignored(self):
        with a_root(ATP, serves=True) as played:
            strange = [
                packet(wire.KIND_DATA, 0, 0b1111, 7),
                packet(wire.KIND_DATA, 0, 0, 7),
                packet(wire.KIND_DATA, AHEAD * WINDOW, EVERYONE, 7),
                packet(wire.KIND_DATA, 2**32 - 1, EVERYONE, 7),
                packet(wire.KIND_DATA, 0, EVERYONE, 7, flags=wire.FLAG_FLOATS),
                packet(wire.KIND_RECEIPT, 0, EVERYONE),
                packet(wire.KIND_ACK, 0, EVERYONE),
                result(0, 7),
                packet(wire.KIND_DATA, 0, EVERYONE, 7)[:100],
            ]
            assert not played.hear(*strange)
            assert len(played.hear(packet(wire.KIND_DATA, 0, EVERYONE, 7))) == 3

    def test_a_reduction_that_is_not_awaited_yet_waits(self):
        values = drawn(2, wire.VALUES)
        before = values.copy()
        with a_root(RACK, serves=False) as played:
            early = [packet(wire.KIND_DATA, s, EVERYONE, s + 1, slot=SLOT + s) for s in (0, 1)]
            assert not played.hear(*early, *early)
            push(played.engine, played.flow, Operation.REDUCE, values)
            acks = played.hear()
            assert sequences(acks[::3]) == [0, 1] or sequences(acks) == [0, 1, 0, 1, 0, 1]
            assert {int(each["kind"]) for each in acks} == {wire.KIND_ACK}
            np.testing.assert_array_equal(values, before + np.array([[1], [2]], np.int32))
            (again,) = played.hear(data(0, 2, 1, slot=SLOT))
            assert again["kind"] == wire.KIND_ACK and again["slot"] == SLOT
            np.testing.assert_array_equal(values, before + np.array([[1], [2]], np.int32))

    def test_its_own_addition_may_overflow(self):
        values = np.full((1, wire.VALUES), 2**31 - 2, np.int32)
        with a_root(RACK, serves=False) as played:
            push(played.engine, played.flow, Operation.REDUCE, values)
            acks = played.hear(packet(wire.KIND_DATA, 0, EVERYONE, 3))
            assert {int(each["flags"]) for each in acks} == {wire.FLAG_OVERFLOW}
            assert played.engine.counters(played.flow).overflows == 1
            assert (values == -(2**31) + 1).all()

    def test_multicast_is_repeated_until_everyone_has_it(self):
        values = drawn(WINDOW + 1, wire.VALUES)
        with a_root(RACK, serves=False) as played:
            push(played.engine, played.flow, Operation.MULTICAST, values)
            sent = played.hear(data(0, 0, 1))
            assert len(sent) == 3 * WINDOW
            np.testing.assert_array_equal(sent[0]["values"], values[0])
            receipts = [packet(wire.KIND_RECEIPT, s, EVERYONE) for s in range(1, WINDOW)]
            again = played.hear(packet(wire.KIND_RECEIPT, 0, 0b011), *receipts)
            assert set(sequences(again)) == {0}  # overtaken: retransmitted to all
            assert played.engine.done(played.flow) == 0
            last = played.hear(packet(wire.KIND_RECEIPT, 0, 0b100))
            assert sequences(last) == [WINDOW] * 3
            played.hear(packet(wire.KIND_RECEIPT, WINDOW, EVERYONE))
            assert played.engine.done(played.flow) == WINDOW + 1


def noise(count: int):
    """Random packets, most of them almost valid."""
    random = np.random.default_rng(4)
    for _ in range(count):
        made = np.frombuffer(random.bytes(PACKET_BYTES), wire.PACKET).copy()
        made["kind"] = random.integers(0, 6)
        made["tree"] = TREE + (random.random() < 0.1)
        made["sequence"] = random.integers(WINDOW, random.choice([4 * WINDOW, 300, 2**32]))
        made["bitmap"] = random.integers(0, 2 ** random.integers(1, 63))
        size = 24 if made["kind"][0] in (3, 4) else int(random.choice([1048, 1048, 24, 900]))
        yield made.tobytes()[:size]


@pytest.mark.parametrize("style", [ATP, SWITCHML])
@pytest.mark.parametrize("serves", [True, False])
def test_noise_harms_no_root(style, serves):
    with a_root(style, serves) as played:
        for each in noise(2000):
            assert not played.hear(each)
        assert played.engine.done(played.flow) == 0


@pytest.mark.parametrize("operation", list(Operation))
def test_noise_harms_no_member(operation):
    values = drawn(200, wire.VALUES)
    before = values.copy()
    with a_member(SWITCHML, values, operation) as played:
        for each in noise(2000):
            played.hear(each)
        assert played.engine.done(played.flow) == 0
        if operation is not Operation.MULTICAST:  # for which any result in the window counts
            np.testing.assert_array_equal(values, before)
