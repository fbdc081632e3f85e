"""An engine in hundreds of trees works on the few that have something to do."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ina_loopback import member, push

from testbed import wire
from testbed.hosts.aggregation import Engine, Operation
from testbed.protocols.rack.protocol import PROTOCOL as RACK

TREES = 200
WINDOW = 4
SOME = (0, 1, 63, 64, 130, TREES - 1)
LATE = 0.15  # seconds, more than some timers last


def add(engine: Engine, tree: int) -> None:
    engine.add(replace(member(1, RACK, WINDOW), tree=tree))


def reduce(engine: Engine, flow: int, fragments: int) -> None:
    values = np.ones(fragments * wire.VALUES, np.int32)
    push(engine, flow, Operation.REDUCE, values)


def sent(engine: Engine) -> list[tuple[int, int]]:
    """The tree and the number of each fragment that it sends now."""
    heads = [
        np.frombuffer(data[: wire.HEADER_BYTES], wire.HEADER)[0] for _, data in engine.packets()
    ]
    return [(int(head["tree"]), int(head["sequence"])) for head in heads]


def acknowledgement(tree: int, sequence: int) -> bytes:
    made = np.zeros(1, wire.HEADER)
    made["kind"], made["tree"], made["sequence"] = wire.KIND_ACK, tree, sequence
    made["bitmap"] = 0b111
    return made.tobytes()


EVENTS = st.one_of(
    st.tuples(st.just("push"), st.sampled_from(SOME), st.integers(0, 3 * WINDOW)),
    st.tuples(st.just("answer"), st.sampled_from(SOME), st.integers(0, 2 * WINDOW)),
    st.tuples(st.just("wait"), st.just(0), st.sampled_from([0.0, 1e-4, LATE])),
    st.tuples(st.just("deadline"), st.just(0), st.just(0)),
)


@settings(max_examples=100, deadline=None)
@given(st.lists(EVENTS, max_size=40))
def test_one_engine_does_what_an_engine_for_each_tree_does(events):
    """The others run at every instant, whether they have something to do or not."""
    with ExitStack() as stack:
        whole = stack.enter_context(Engine())
        for tree in range(TREES):
            add(whole, tree)
        alone = {tree: stack.enter_context(Engine()) for tree in SOME}
        for tree, each in alone.items():
            add(each, tree)
        now, due = 1000.0, np.inf
        for what, tree, number in events:
            if what == "push":
                reduce(whole, tree, number)
                reduce(alone[tree], 0, number)
            elif what == "answer":
                whole.take(acknowledgement(tree, number), now)
                alone[tree].take(acknowledgement(tree, number), now)
            elif what == "wait":
                now += number
            elif due < np.inf:
                now = max(now, due)
            due = whole.pump(now)
            assert due == min(each.pump(now) for each in alone.values())
            assert sorted(sent(whole)) == sorted(s for each in alone.values() for s in sent(each))
            assert list(whole.finished()) == [t for t, e in alone.items() if list(e.finished())]
            done = {tree: each.done(0) for tree, each in alone.items()}
            assert {tree: whole.done(tree) for tree in SOME} == done


def test_a_flow_has_finished_once():
    with Engine() as engine:
        for tree in range(TREES):
            add(engine, tree)
        for tree in (70, 3):
            reduce(engine, tree, 1)
        engine.pump(1000.0)
        assert sorted(sent(engine)) == [(3, 0), (70, 0)]
        assert list(engine.finished()) == []
        for tree in (70, 3):
            engine.take(acknowledgement(tree, 0), 1000.001)
        engine.pump(1000.001)
        assert list(engine.finished()) == [3, 70]
        assert list(engine.finished()) == []


def test_without_trees_there_is_nothing_to_do():
    with Engine() as engine:
        assert engine.pump(1000.0) == np.inf
        assert list(engine.finished()) == [] and list(engine.packets()) == []


def test_a_closed_engine_has_no_trees():
    engine = Engine()
    engine.close()
    with pytest.raises(ValueError, match="closed"):
        list(engine.finished())
