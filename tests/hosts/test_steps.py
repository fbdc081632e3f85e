"""The parts of a rank, one by one: interpreter, tree queue, messages, streams, driver."""

from __future__ import annotations

from collections.abc import Sequence
from multiprocessing import Pipe

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ina_loopback import NET
from patience import awaited

from testbed.hosts import driver
from testbed.hosts.interpreter import Interpreter
from testbed.hosts.messages import HEADER, Answer, Chunk, Turn, decode, encode
from testbed.hosts.stream import Mesh
from testbed.hosts.transport import AT_ONCE, NEVER
from testbed.hosts.tree_queue import TreeQueue
from testbed.plan.program import Plan, Receive, Send, SwitchAllReduce
from testbed.plan.trees import Tree
from testbed.plan.units import Unit
from testbed.protocols.switchml.protocol import PROTOCOL as SWITCHML

TREE = Tree("switch", {"h0": 0, "h1": 1}, {"h0": "switch", "h1": "switch"}, SWITCHML)


def values(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int32)


class Played:
    """An interpreter, and a record of what it asks for."""

    def __init__(self, *program, chunks=1, elements=2, later=False):
        plan = Plan("played", ("h0", "h1"), 2, chunks, (program, ()), (TREE,))
        self.asked = []
        self.interpreter = Interpreter(
            plan,
            0,
            lambda unit: plan.cuts(elements, 1),
            lambda to, message: self.asked.append(("send", to, *message[:2], *message[2].tolist())),
            lambda operation, unit, found: self.asked.append(("sum", unit, operation.chunk)),
            lambda unit: self.asked.append(("finished", unit)),
            (lambda unit, chunk: self.asked.append(("later", unit, chunk))) if later else None,
        )

    def take(self):
        asked, self.asked = self.asked, []
        return asked


def test_a_chunk_that_comes_early_waits_until_the_program_asks_for_it():
    played = Played(Receive(0, 1, reduce=True), Send(0, 1), Receive(0, 1, reduce=False))
    mine = values(1, 2)
    played.interpreter.arrived(1, Chunk(7, 0, values(10, 20)))
    assert played.take() == [] and not played.interpreter.has_begun(7)
    played.interpreter.begin(7, mine)
    assert played.take() == [("send", 1, 7, 0, 11, 22)]
    assert played.interpreter.has_begun(7)
    played.interpreter.arrived(1, Chunk(7, 0, values(5, 6)))
    assert played.take() == [("finished", 7)]
    assert mine.tolist() == [5, 6]
    assert not played.interpreter.has_begun(7)


def test_chunks_and_units_do_not_wait_for_one_another():
    played = Played(Receive(0, 1, reduce=True), Send(0, 1), Send(1, 1), chunks=2)
    played.interpreter.begin(0, values(1, 2))
    played.interpreter.begin(1, values(3, 4))
    assert played.take() == [("send", 1, 0, 1, 2), ("send", 1, 1, 1, 4)]
    played.interpreter.arrived(1, Chunk(1, 0, values(10)))
    assert played.take() == [("send", 1, 1, 0, 13), ("finished", 1)]
    played.interpreter.arrived(1, Chunk(0, 0, values(10)))
    assert played.take() == [("send", 1, 0, 0, 11), ("finished", 0)]


def test_a_transfer_waits_for_its_step_and_an_operation_on_a_tree_for_its_end():
    played = Played(Send(0, 1), SwitchAllReduce(0, 0), later=True)
    played.interpreter.begin(0, values(1))
    assert played.take() == [("later", 0, 0)]
    played.interpreter.resume(0, 0)
    assert played.take() == [("send", 1, 0, 0, 1), ("later", 0, 0)]
    played.interpreter.resume(0, 0)
    assert played.take() == [("sum", 0, 0)]
    played.interpreter.completed(0, 0)
    assert played.take() == [("finished", 0)]


class Counted:
    """A tree's flow, whose fragments of two values are done when the test says so."""

    def __init__(self):
        self.pushed, self.ended, self.as_floats = [], 0, []

    def push(self, operation, found, priority):
        assert found.size
        self.pushed.append((operation.chunk, found.tolist()))
        return len(found) // 2

    def done(self):
        return self.ended

    def floats(self):
        return np.array(self.as_floats, np.uint64)


def queue(chunks):
    program = tuple(SwitchAllReduce(chunk, 0) for chunk in range(chunks))
    flow = Counted()
    plan = Plan("queued", ("h0", "h1"), 2, chunks, (program, program), (TREE,))
    return TreeQueue(plan, 0, 0, flow, [Unit(0, 8, 0.0)]), flow, program


@given(st.integers(1, 3), st.integers(1, 4), st.data())
def test_operations_are_pushed_in_the_order_that_all_agree_on(chunks, units, data):
    waiting, flow, program = queue(chunks)
    agreed = [(unit, op) for unit in range(units) for op in program]
    sizes = [2 * data.draw(st.integers(0, 3)) for _ in agreed]
    for place in data.draw(st.permutations(range(len(agreed)))):
        unit, op = agreed[place]
        waiting.ready(op, unit, np.full(sizes[place], place, np.int32))
    wanted = [
        (op.chunk, [place] * sizes[place]) for place, (_, op) in enumerate(agreed) if sizes[place]
    ]
    assert flow.pushed == wanted
    ended = []
    while flow.ended < sum(sizes) // 2:
        ended += [(each.unit, each.chunk) for each, _ in waiting.completed()]
        ends = [sum(sizes[: place + 1]) // 2 for place in range(len(agreed))]
        assert len(ended) == sum(end <= flow.ended for end in ends)
        flow.ended += 1
    ended += [(each.unit, each.chunk) for each, _ in waiting.completed()]
    assert ended == [(unit, op.chunk) for unit, op in agreed]


def test_an_operation_without_fragments_ends_when_those_before_it_have():
    waiting, flow, (first, second) = queue(2)
    waiting.ready(first, 0, values())
    assert [each.chunk for each, _ in waiting.completed()] == [0]
    waiting.ready(second, 0, values(1, 2, 3, 4))
    waiting.ready(first, 1, values())
    assert list(waiting.completed()) == []
    flow.ended = 2
    assert [(each.unit, each.chunk) for each, _ in waiting.completed()] == [(0, 1), (1, 0)]


def test_fragments_that_were_summed_as_floats_are_counted_from_their_operations_first():
    waiting, flow, (first, second) = queue(2)
    waiting.ready(first, 0, values(*range(6)))
    waiting.ready(second, 0, values(*range(8)))
    flow.ended, flow.as_floats = 7, [1, 3, 6]
    assert [floats.tolist() for _, floats in waiting.completed()] == [[1], [0, 3]]


MESSAGES = [
    Chunk(0, 0, values(1, -2, 3)),
    Chunk(2**32 - 1, 2**16 - 1, values()),
    Answer(5, 1, values(7), [0, 3, 2]),
    Answer(5, 1, values(), [4]),
    Turn(),
]


def listed(message):
    return [
        type(message),
        *(each.tolist() if isinstance(each, np.ndarray) else each for each in message),
    ]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_is_what_it_was_after_the_wire(message):
    data = encode(message)
    unit, kind, chunk, length = HEADER.unpack_from(data)
    assert length == len(data) - HEADER.size
    assert listed(decode(unit, kind, chunk, bytearray(data[HEADER.size :]))) == listed(message)


def test_a_stream_carries_messages_without_values():
    """Reading zero bytes was once mistaken for the end of the connection."""
    sender, receiver = (Mesh(rank, [f"{NET}.203", f"{NET}.204"]) for rank in (0, 1))
    try:
        sender.connect([1])
        for message in MESSAGES:
            sender.send(1, message)
        arrived = []
        awaited(lambda: arrived.extend(receiver.poll()) or len(arrived) >= len(MESSAGES))
        assert [listed(message) for _, message in arrived] == [listed(each) for each in MESSAGES]
        assert {source for source, _ in arrived} == {0}
    finally:
        sender.close()
        receiver.close()


class Machine:
    """Sockets and a clock: a wait ends when something arrives, or ``late_s`` after its time."""

    def __init__(self, late_s: float, comes: Sequence[float] = ()) -> None:
        self.now, self._late_s, self._comes = 0.0, late_s, list(comes)
        self.waits: list[float] = []

    def watch(self, readable):
        pass

    def wait(self, until):
        self.waits.append(until)
        if self._comes and self._comes[0] < until:
            self.now = self._comes.pop(0)
            return True
        self.now = until + self._late_s
        return False


class Waiting:
    """Waits until each of ``times``, and records when it continues."""

    def __init__(self, times: Sequence[float]) -> None:
        self.times, self.went_on = times, []

    def steps(self, start):
        for until in self.times:
            self.went_on.append((yield until))


def test_the_driver_says_how_late_it_was_woken_at_the_worst(monkeypatch):
    machine, rank = Machine(0.25, comes=[2.5, 9.0]), Waiting([1.0, 2.0, AT_ONCE, 4.0, NEVER])
    monkeypatch.setattr(driver, "monotonic", lambda: machine.now)
    assert driver.drive(rank, machine, 0.0) == 0.25
    # AT_ONCE needs no wait. Neither an arrival nor a time in the past counts as late.
    assert machine.waits == [1.0, 2.0, 4.0, NEVER]
    assert rank.went_on == [1.25, 2.25, 2.25, 2.5, 9.0]


def test_the_driver_ends_a_rank_that_is_told_to():
    ours, theirs = Pipe()
    ours.send("stop")
    rank = Waiting([NEVER])
    assert driver.drive(rank, Machine(0.0), 0.0, theirs) == 0.0
    assert rank.went_on == []


def test_a_message_for_later_does_not_resume_what_waits():
    played = Played(Send(0, 1), Receive(0, 1, reduce=True), later=True)
    played.interpreter.begin(3, values(1, 2))
    assert played.take() == [("later", 3, 0)]
    played.interpreter.arrived(1, Chunk(3, 0, values(10, 20)))
    assert played.take() == []
    played.interpreter.resume(3, 0)
    assert played.take() == [("send", 1, 3, 0, 1, 2), ("finished", 3)]


def test_a_message_for_later_does_not_begin_a_sum_again():
    played = Played(SwitchAllReduce(0, 0), Receive(0, 1, reduce=False))
    played.interpreter.begin(3, values(1, 2))
    played.interpreter.arrived(1, Chunk(3, 0, values(10, 20)))
    assert played.take() == [("sum", 3, 0)]
    played.interpreter.completed(3, 0)
    assert played.take() == [("finished", 3)]
