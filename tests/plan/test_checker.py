"""The checker proves right plans right and finds every way in which a plan can be wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.plan.checker import PlanError, check
from testbed.plan.program import Plan, Receive, Send, SwitchAllReduce
from testbed.plan.trees import Tree
from testbed.systems import Placement, registry
from testbed.topology.builders import leaf_spine


def plan(*programs, workers=None, chunks=1, trees=()):
    hosts = tuple(f"h{rank}" for rank in range(len(programs)))
    return Plan("made up", hosts, workers or len(programs), chunks, programs, trees)


def swap(rank):
    """The half of an exchange between two ranks."""
    return (Send(0, 1 - rank), Receive(0, 1 - rank, reduce=True))


def test_an_exchange_of_two_is_right():
    check(plan(swap(0), swap(1)))


def faults(bad):
    with pytest.raises(PlanError) as error:
        check(bad)
    return str(error.value)


def test_nothing_done_is_not_enough():
    said = faults(plan((), ()))
    assert "rank 0 ends with {0: 1} in chunk 0" in said
    assert "rank 1 ends with {1: 1} in chunk 0" in said


def test_a_replacement_loses_what_was_there():
    lost = (Send(0, 1), Receive(0, 1, reduce=False))
    assert "rank 0 ends with {1: 1}" in faults(plan(lost, swap(1)))


def test_a_contribution_sent_twice_is_counted_twice():
    twice = (Send(0, 1), Send(0, 1), Receive(0, 1, reduce=True))
    eager = (Send(0, 0), Receive(0, 0, reduce=True), Receive(0, 0, reduce=True))
    assert "rank 1 ends with {1: 1, 0: 2}" in faults(plan(twice, eager))


def test_a_chunk_that_nobody_receives_is_found():
    assert "a chunk 0 from rank 0 to 1 is never received" in faults(
        plan((*swap(0), Send(0, 1)), swap(1))
    )


def test_waiting_for_each_other_is_found():
    late = [(Receive(0, 1 - rank, reduce=True), Send(0, 1 - rank)) for rank in (0, 1)]
    said = faults(plan(*late))
    assert "rank 0 waits for ever" in said
    assert "rank 1 waits for ever" in said


def test_chunks_do_not_wait_for_each_other():
    # Read as one sequence this would deadlock; chunks are independent, so it does not.
    first = (Receive(0, 1, True), Send(0, 1), Send(1, 1), Receive(1, 1, True))
    second = (Send(0, 0), Receive(1, 0, True), Receive(0, 0, True), Send(1, 0))
    right = plan(first, second, chunks=2)
    said = faults(right)  # chunk 0 at rank 1 gets its own contribution back
    assert "waits" not in said
    assert "chunk 0" in said


def test_a_program_too_few_is_found():
    short = replace(plan(swap(0), swap(1)), hosts=("h0", "h1", "h2"))
    assert "2 programs for 3 ranks" in faults(short)


def switched(parent, root="h2", ranks=None, programs=3):
    tree = Tree(root, ranks or {"h0": 0, "h1": 1}, parent)
    return plan(*(((SwitchAllReduce(0, 0),),) * programs), workers=2, trees=(tree,))


def test_a_tree_with_a_server_at_its_root_is_right():
    check(switched({"h0": "t0", "h1": "t0", "t0": "h2"}))


@pytest.mark.parametrize(
    ("parent", "words"),
    [
        ({"h0": "t0", "h1": "t1", "t0": "h2"}, "h1 does not reach the root h2"),
        ({"h0": "t0", "h1": "t0", "t0": "t1", "t1": "t0"}, "does not reach the root"),
        ({"h0": "t0", "t0": "h2"}, "rank 0 ends with {0: 1}"),
    ],
    ids=["cut off", "a loop", "left out"],
)
def test_faults_of_trees(parent, words):
    assert words in faults(switched(parent))


def test_a_tree_that_mixes_up_ranks_is_found():
    said = faults(switched({"h0": "h2", "h1": "h2"}, ranks={"h0": 1, "h1": 0}))
    assert "tree names h0 as rank 1, which is h1" in said


def test_a_root_that_does_not_take_part_is_found():
    bad = switched({"h0": "h2", "h1": "h2"})
    said = faults(replace(bad, programs=(*bad.programs[:2], ())))
    assert "rank 0 waits for ever" in said


@given(
    st.sampled_from(sorted(registry)),
    st.integers(2, 6),
    st.data(),
)
@settings(max_examples=150, deadline=None)
def test_a_right_plan_without_one_of_its_operations_is_wrong(system, workers, data):
    fabric = leaf_spine(2, 3, [3, 2, 4], 1, 1, 1).with_ina(["t0", "t2"])
    servers = fabric.hosts[-registry[system].servers[0] :] if registry[system].servers[0] else ()
    right = registry[system].plan(Placement(fabric.hosts[:workers], servers), fabric)
    check(right)
    rank = data.draw(st.sampled_from(right.ranks))
    program = right.programs[rank]
    at = data.draw(st.integers(0, len(program) - 1))
    damaged = list(right.programs)
    damaged[rank] = program[:at] + program[at + 1 :]
    with pytest.raises(PlanError):
        check(replace(right, programs=tuple(damaged)))
