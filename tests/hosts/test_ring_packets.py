"""A rank on NetReduce's ring, packet by packet, on a virtual clock."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

import numpy as np
import pytest
from ina_loopback import TREE, drawn
from star import Star

from testbed import wire
from testbed.hosts.aggregation import Engine, Operation
from testbed.protocols.netreduce.protocol import PROTOCOL as NETREDUCE
from testbed.protocols.roles import Neighbours

RANKS, RANK, WINDOW, MESSAGE = 3, 1, 2, 4
SWITCH = "10.0.0.100"
IN_FLIGHT = WINDOW * MESSAGE
ACK, IS_SUM, BTH = 0, 1, 12
BASE = np.dtype(
    [("opcode", "u1"), ("flags", "u1"), ("partition", ">u2"), ("reserved", "u1"),
     ("connection", "u1", 3), ("acknowledge", "u1"), ("sequence", "u1", 3)]
)  # fmt: skip


def address(rank: int) -> str:
    return f"10.0.0.{rank % RANKS + 1}"


def neighbours(rank: int) -> Neighbours:
    return Neighbours(
        TREE, NETREDUCE, rank, SWITCH, address(rank + 1), address(rank - 1 + RANKS),
        (rank - 1) % RANKS, MESSAGE, WINDOW,
    )  # fmt: skip


class Parsed:
    """A packet's fields. ``header`` is the INA header, ``values`` are int32 in the machine's byte
    order; both are None if the packet has none."""

    def __init__(self, packet: bytes) -> None:
        base = np.frombuffer(packet[:BTH], BASE)[0]
        self.opcode, self.reserved = int(base["opcode"]), int(base["reserved"])
        self.connection = int.from_bytes(base["connection"].tobytes(), "big")
        self.sequence = int.from_bytes(base["sequence"].tobytes(), "big")
        self.header = self.values = None
        if self.opcode == wire.ACKNOWLEDGE:
            self.syndrome = packet[BTH]
            return
        at = BTH
        if self.opcode in (wire.SEND_FIRST, wire.SEND_ONLY):
            self.header = np.frombuffer(packet[at : at + wire.HEADER_BYTES], wire.HEADER)[0]
            at += wire.HEADER_BYTES
        self.values = np.frombuffer(packet[at:], ">i4").astype(np.int32)
        assert len(self.values) == wire.VALUES


def base(opcode: int, rank: int, sequence: int, mark: int = 0) -> bytes:
    connection = wire.connection(TREE, rank).to_bytes(3, "big")
    return bytes([opcode, 0, 255, 255, mark, *connection, 0]) + sequence.to_bytes(3, "big")


def a_sum(sequence: int, values=7, mark: int = IS_SUM) -> bytes:
    """A sum from the previous rank, as part of a message."""
    place = sequence % MESSAGE
    opens, opcode = place == 0, {0: wire.SEND_FIRST, MESSAGE - 1: wire.SEND_LAST}
    packet = base(opcode.get(place, wire.SEND_MIDDLE), RANK - 1, sequence, mark)
    header = bytes(wire.HEADER_BYTES) if opens else b""
    return packet + header + np.broadcast_to(np.array(values, ">i4"), wire.VALUES).tobytes()


def an_answer(sequence: int, syndrome: int = ACK) -> bytes:
    return base(wire.ACKNOWLEDGE, RANK, sequence) + bytes([syndrome, 0, 0, 0])


class Played:
    """Rank 1 of three, and the test's clock."""

    def __init__(self, engine: Engine, values: np.ndarray, message: int = MESSAGE) -> None:
        self.engine, self.values, self.now = engine, values, 1000.0
        engine.add(replace(neighbours(RANK), message=message))
        engine.push(0, Operation.ALL_REDUCE, values.ctypes.data, values.size)

    def hear(self, *packets: bytes, after: float = 0.0) -> list[tuple[str, Parsed]]:
        """The packets that it sends, with their destinations: within ``after`` seconds, and in
        answer to ``packets``, which arrive at the end of that time."""
        end = self.now + after
        sent = []
        while (due := self.engine.pump(self.now)) <= end:
            sent += self._sent()
            self.now = max(due, self.now + 1e-6)
        sent += self._sent()
        self.now = end
        for each in packets:
            self.engine.take(each, self.now)
        self.engine.pump(self.now)
        return sent + self._sent()

    def _sent(self) -> list[tuple[str, Parsed]]:
        return [(to, Parsed(packet)) for to, packet in self.engine.packets()]

    @property
    def retransmitted(self) -> int:
        return self.engine.counters(0).retransmitted


@pytest.fixture
def played() -> Iterator[Played]:
    with Engine() as engine:
        yield Played(engine, drawn(30, wire.VALUES))


def data(sent) -> list[int]:
    return [each.sequence for _, each in sent if each.values is not None]


def asked(sent) -> list[int]:
    return [
        each.sequence
        for to, each in sent
        if each.opcode == wire.ACKNOWLEDGE and each.syndrome == wire.NAK_SEQUENCE
    ]


def acknowledged(sent) -> list[int]:
    return [
        each.sequence
        for to, each in sent
        if each.opcode == wire.ACKNOWLEDGE and each.syndrome == ACK
    ]


def test_it_sends_a_window_of_messages_and_no_more(played):
    sent = played.hear()
    assert data(sent) == list(range(IN_FLIGHT))
    for to, each in sent:
        place = each.sequence % MESSAGE
        assert to == SWITCH
        assert each.connection == wire.connection(TREE, RANK)
        np.testing.assert_array_equal(each.values, played.values[each.sequence])
        assert (each.header is not None) == (place == 0)
        if each.header is not None:
            assert each.opcode == wire.SEND_FIRST
            assert each.header["tree"] == TREE
            assert each.header["bitmap"] == 1 << RANK
            assert each.header["next_slot"] % 2**24 == MESSAGE
            assert each.header["slot"] == each.sequence % (2 * IN_FLIGHT)
        else:
            assert each.opcode == (wire.SEND_LAST if place == MESSAGE - 1 else wire.SEND_MIDDLE)


def test_the_last_message_is_as_long_as_what_is_left(played):
    sent = played.hear()
    for s in range(len(played.values)):
        sent += played.hear(a_sum(s), an_answer(s))
    last = [each for _, each in sent if each.sequence >= 28 and each.values is not None]
    assert [each.opcode for each in last] == [wire.SEND_FIRST, wire.SEND_LAST]
    assert last[0].header["next_slot"] % 2**24 == 2
    assert played.engine.done(0) == 30
    assert not played.retransmitted


def test_a_sum_replaces_what_was_there_and_is_acknowledged(played):
    played.hear()
    sent = played.hear(*(a_sum(s, s) for s in range(MESSAGE)))
    assert data(sent) == list(range(IN_FLIGHT, IN_FLIGHT + MESSAGE))
    assert acknowledged(sent) == [MESSAGE - 1]
    assert {to for to, each in sent if each.opcode == wire.ACKNOWLEDGE} == {address(RANK - 1)}
    np.testing.assert_array_equal(played.values[:MESSAGE, 0], range(MESSAGE))
    assert played.engine.done(0) == 0  # the next rank may still ask for it
    played.hear(an_answer(2))
    assert played.engine.done(0) == 3


def test_values_that_no_switch_summed_are_not_taken(played):
    """A switch that lost its tables forwards the contribution of the previous rank."""
    played.hear()
    before = played.values.copy()
    assert not played.hear(*(a_sum(s, mark=0) for s in range(MESSAGE)))
    np.testing.assert_array_equal(played.values, before)


def test_acknowledgements_are_gathered_up_to_the_message_or_what_is_out_of_order(played):
    played.hear()
    assert not [each for s in range(MESSAGE - 1) for each in acknowledged(played.hear(a_sum(s)))]
    assert acknowledged(played.hear(a_sum(MESSAGE - 1))) == [MESSAGE - 1]
    assert acknowledged(played.hear(a_sum(MESSAGE + 1))) == [MESSAGE - 1]
    assert acknowledged(played.hear(a_sum(MESSAGE))) == [MESSAGE + 1]
    assert acknowledged(played.hear(a_sum(0))) == [MESSAGE + 1]


def test_acknowledgements_leave_before_values(played):
    """Behind a window of values in the link's queue, they would arrive too late."""
    played.hear()
    sent = played.hear(*(a_sum(s) for s in range(MESSAGE)))
    assert [each.opcode == wire.ACKNOWLEDGE for _, each in sent] == [True] + MESSAGE * [False]


def test_what_is_overtaken_is_asked_for(played):
    played.hear()
    assert not asked(played.hear(*(a_sum(s) for s in (1, 2))))
    assert asked(played.hear(*(a_sum(s) for s in (3, 4)))) == [0]
    assert acknowledged(played.hear(a_sum(0))) == [4]


def test_who_is_asked_for_a_sum_sends_it_marked_past_the_switch(played):
    played.hear()
    played.hear(*(a_sum(s) for s in range(3)), after=0.01)
    ((to, again),) = [
        (to, each)
        for to, each in played.hear(an_answer(1, wire.NAK_SEQUENCE), after=0.02)
        if each.sequence == 1 and each.values is not None
    ]
    assert to == address(RANK + 1)
    assert again.reserved & IS_SUM
    assert (again.values == 7).all()


def test_before_a_round_trip_is_known_it_may_be_long(played):
    """On a slow link each answer to what waits in a queue would ask for it again."""
    played.hear()
    played.hear(*(an_answer(2, wire.NAK_SEQUENCE) for _ in range(9)), after=0.09)
    assert not played.retransmitted


def test_who_is_asked_for_its_own_opens_the_message_again(played):
    played.hear()
    sent = played.hear(an_answer(2, wire.NAK_SEQUENCE), after=0.11)
    assert data(sent) == [0, 2]
    assert {to for to, _ in sent} == {SWITCH}
    assert not any(each.reserved & IS_SUM for _, each in sent)
    assert played.retransmitted == 2


def test_after_a_silence_it_asks_and_probes_ever_more_slowly(played):
    played.hear()
    assert not played.hear(after=0.19)
    sent = played.hear(after=0.02)
    assert asked(sent)[0] == 0
    assert 0 in data(sent)
    played.hear(after=5)
    before = played.retransmitted
    played.hear(after=5)  # the timeout is a second by now
    assert 0 < played.retransmitted - before <= 6 * (IN_FLIGHT + 2)


def test_the_timeout_waits_while_acknowledgements_come(played):
    """They may have waited behind a window of the next rank's own values."""
    played.hear()
    played.hear(*(a_sum(s) for s in range(MESSAGE)), after=0.05)  # a timeout of 0.2 s
    for s in range(MESSAGE):
        played.hear(an_answer(s), after=0.08)
    assert not played.retransmitted


def test_a_timeout_retransmits_only_some_of_what_is_in_flight():
    with Engine() as engine:
        played = Played(engine, drawn(100, wire.VALUES), message=40)
        assert len(data(played.hear())) == 80
        # A probe, and a timeout, which opens the message again.
        assert data(played.hear(after=0.35)) == [0, 0, *range(1, 33)]


def test_timeouts_keep_up_with_a_queue_that_fills():
    with Engine() as engine:
        played = Played(engine, drawn(15 * IN_FLIGHT, wire.VALUES))
        round_trip = 0.1
        for first in range(0, 15 * IN_FLIGHT, IN_FLIGHT):
            played.hear(after=round_trip)
            round = range(first, first + IN_FLIGHT)
            played.hear(*map(a_sum, round), an_answer(round[-1]))
            round_trip *= 1.25
        assert round_trip > 2
        assert played.retransmitted == 0


def test_a_silence_does_not_make_the_next_one_longer(played):
    played.hear()
    played.hear(*(a_sum(s) for s in range(MESSAGE)), an_answer(MESSAGE - 1), after=0.01)
    assert MESSAGE in data(played.hear(after=0.021))
    played.hear(*(a_sum(s) for s in range(MESSAGE, IN_FLIGHT)), after=0.05)
    played.hear(an_answer(IN_FLIGHT - 1))
    assert IN_FLIGHT in data(played.hear(after=0.021))


def test_if_nothing_follows_a_probes_sum_all_that_was_sent_before_it_is_lost(played):
    """A switch that missed the first packet of a message knows none of the message."""
    played.hear()
    played.hear(*(a_sum(s) for s in range(MESSAGE)), an_answer(MESSAGE - 1), after=0.01)
    assert data(played.hear(after=0.021)) == [MESSAGE]
    played.hear(a_sum(MESSAGE), an_answer(MESSAGE), after=0.01)
    assert data(played.hear(after=0.021)) == list(range(MESSAGE + 1, IN_FLIGHT + MESSAGE))
    assert data(played.hear(after=0.041)) == [MESSAGE + 1]  # none of them is answered: a probe


def test_after_a_packet_alone_no_other_is_part_of_its_message(played):
    """In the switch, it has replaced the message."""
    played.hear()
    played.hear(*(a_sum(s) for s in range(5)), an_answer(4), after=0.01)
    opcodes = [
        each.opcode
        for _, each in played.hear(after=0.062)  # two silences
        if each.sequence == 5 and each.values is not None
    ]
    assert opcodes == [wire.SEND_MIDDLE, wire.SEND_ONLY]
    ((_, other),) = [
        (to, each)
        for to, each in played.hear(an_answer(6, wire.NAK_SEQUENCE))
        if each.sequence == 6
    ]
    assert other.opcode == wire.SEND_ONLY


def test_noise_harms_nothing(played):
    random = np.random.default_rng(5)
    played.hear()
    before = played.values.copy()
    for _ in range(3000):
        size = int(random.choice([0, 3, BTH, 16, BTH + 1024, BTH + 24 + 1024, 900]))
        made = bytearray(random.bytes(size))
        if size >= BTH:
            made[5:8] = wire.connection(TREE, int(random.choice([2, 5]))).to_bytes(3, "big")
        played.hear(bytes(made))
    np.testing.assert_array_equal(played.values, before)
    assert played.engine.done(0) == 0


def test_packets_of_another_port_are_none_of_its(played):
    played.hear()
    assert not played.hear(b"", bytes(24), bytes(1048))


class Summing:
    """The ring's switch: it forwards a packet as soon as it can put the sum into it."""

    def __init__(self) -> None:
        self._held: dict[int, dict[int, bytes]] = defaultdict(dict)
        self._sums: dict[int, bytes] = {}
        self._out: list[tuple[str, bytes]] = []

    def take(self, packet: bytes, now: float) -> None:
        rank = Parsed(packet).connection - wire.connection(TREE, 0)
        sequence, held = Parsed(packet).sequence, self._held[Parsed(packet).sequence]
        held[rank] = packet
        if sequence in self._sums:
            self._forward(rank, packet, self._sums[sequence])
        elif len(held) == RANKS:
            total = np.sum([Parsed(each).values for each in held.values()], axis=0, dtype=np.int32)
            self._sums[sequence] = total.astype(">i4").tobytes()
            for each, own in held.items():
                self._forward(each, own, self._sums[sequence])

    def _forward(self, rank: int, packet: bytes, values: bytes) -> None:
        head = packet[:4] + bytes([IS_SUM]) + packet[5 : -len(values)]
        self._out.append((address(rank + 1), head + values))

    def pump(self, now: float) -> float:
        return math.inf

    def packets(self) -> Iterator[tuple[str, bytes]]:
        out, self._out = self._out, []
        return iter(out)


@pytest.mark.parametrize("loss", [0.0, 0.02, 0.1])
@pytest.mark.parametrize("seed", range(3))
def test_every_rank_has_the_sum_whatever_is_lost(loss, seed):
    fragments, unfilled = 200, 100
    values = [drawn(fragments, wire.VALUES, seed=rank) // RANKS for rank in range(RANKS)]
    total = np.sum(values, axis=0, dtype=np.int32)
    with ExitStack() as stack:
        engines = {address(rank): stack.enter_context(Engine()) for rank in range(RANKS)}
        star = Star({**engines, SWITCH: Summing()}, engines, lambda _: 1e-4, loss, seed)
        for rank, (at, engine) in enumerate(engines.items()):
            engine.add(neighbours(rank))
            for first, end in ((0, 7), (7, 8), (8, fragments)):
                chunk = values[rank][first:end]
                engine.push(0, Operation.ALL_REDUCE, chunk.ctypes.data, chunk.size - unfilled)
            star.pump(at)
        star.run(lambda: all(each.done(0) == fragments for each in engines.values()), 100)
        again = [each.counters(0).retransmitted for each in engines.values()]
    filled = np.ones(total.shape, bool)
    filled[[6, 7, fragments - 1], -unfilled:] = False  # the last packet of each chunk
    for rank, each in enumerate(values):
        own = drawn(fragments, wire.VALUES, seed=rank) // RANKS
        np.testing.assert_array_equal(each, np.where(filled, total, own))
    assert any(again) == bool(loss)
