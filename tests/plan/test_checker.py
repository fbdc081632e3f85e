"""The checker accepts correct plans, and finds every kind of fault in others."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.plan.checker import PlanError, check
from testbed.plan.program import (
    Consistency,
    Multicast,
    Plan,
    Receive,
    Send,
    SwitchAllReduce,
    SwitchReduce,
    Update,
)
from testbed.plan.trees import Tree
from testbed.protocols.atp.protocol import PROTOCOL as ATP
from testbed.protocols.rack.protocol import PROTOCOL as RACK
from testbed.protocols.switchml.protocol import PROTOCOL as SWITCHML
from testbed.systems import Assignment, registry
from testbed.topology.builders import leaf_spine
from testbed.workload.catalogue import load


def plan(*programs, workers=None, chunks=1, trees=()):
    hosts = tuple(f"h{rank}" for rank in range(len(programs)))
    return Plan("made up", hosts, workers or len(programs), chunks, programs, trees)


def swap(rank):
    """One rank's half of an exchange between two ranks."""
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


def test_of_many_faults_the_first_are_named():
    said = faults(plan(*[()] * 6, chunks=6))
    assert said.count("ends with") == 8
    assert said.startswith(
        "made up: rank 0 ends with {0: 1} in chunk 0, wanted each worker's once; rank 0"
    )
    assert said.endswith("; and 28 more")


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
    # As one sequence, this would deadlock, but chunks are independent.
    first = (Receive(0, 1, True), Send(0, 1), Send(1, 1), Receive(1, 1, True))
    second = (Send(0, 0), Receive(1, 0, True), Receive(0, 0, True), Send(1, 0))
    right = plan(first, second, chunks=2)
    said = faults(right)  # rank 1 gets its own contribution to chunk 0 back
    assert "waits" not in said
    assert "chunk 0" in said


def test_a_program_too_few_is_found():
    short = replace(plan(swap(0), swap(1)), hosts=("h0", "h1", "h2"))
    assert "2 programs for 3 ranks" in faults(short)


def switched(parent, ranks=None):
    tree = Tree("h2", ranks or {"h0": 0, "h1": 1}, parent, ATP, root_rank=2)
    return plan(*(((SwitchAllReduce(0, 0),),) * 3), workers=2, trees=(tree,))


def test_a_tree_with_a_server_at_its_root_is_right():
    check(switched({"h0": "t0", "h1": "t0", "t0": "h2"}))


@pytest.mark.parametrize(
    ("parent", "words"),
    [
        ({"h0": "t0", "h1": "t1", "t0": "h2"}, "h1 does not reach the root h2"),
        ({"h0": "t0", "h1": "t0", "t0": "t1", "t1": "t0"}, "does not reach the root"),
        ({"h0": "t0", "t0": "h2"}, "member h1 has no parent"),
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
    assert "ranks 0 and 2 use tree 0 in different orders" in said


@given(
    st.sampled_from(sorted(registry)),
    st.integers(2, 6),
    st.data(),
)
@settings(max_examples=150, deadline=None)
def test_a_right_plan_without_one_of_its_operations_is_wrong(system, workers, data):
    fabric = leaf_spine(2, 3, [3, 2, 4], 1e10, 1e10, 1).with_ina(["t0", "t2"])
    servers = fabric.hosts[-registry[system].servers[0] :] if registry[system].servers[0] else ()
    job = Assignment(fabric.hosts[:workers], servers, trace=load("resnet50"))
    right = registry[system].plan(job, fabric)
    check(right)
    rank = data.draw(st.sampled_from([rank for rank in right.ranks if right.programs[rank]]))
    program = right.programs[rank]
    at = data.draw(st.integers(0, len(program) - 1))
    damaged = list(right.programs)
    damaged[rank] = program[:at] + program[at + 1 :]
    with pytest.raises(PlanError):
        check(replace(right, programs=tuple(damaged)))


def gathered(*, up=None, down=None):
    """h0 and h1 send their sum to h2, which adds its own and sends the total back to both."""
    both = {"h0": "t0", "h1": "t0", "t0": "h2"}
    trees = (Tree("h2", {"h0": 0, "h1": 1}, both, RACK, root_rank=2),) * 2
    member = (up or SwitchReduce(0, 0), down or Multicast(0, 1))
    return plan(member, member, (SwitchReduce(0, 0), Multicast(0, 1)), trees=trees)


def test_a_sum_towards_a_rank_and_copies_from_it_are_right():
    check(gathered())


def test_a_multicast_before_the_sum_is_found():
    assert "in different orders" in faults(gathered(up=Multicast(0, 1), down=SwitchReduce(0, 1)))


def test_a_tree_for_both_is_found():
    both = (SwitchReduce(0, 0), Multicast(0, 0))
    said = faults(replace(gathered(), programs=(both,) * 3))
    assert "tree 0 has operations of several kinds: Multicast, SwitchReduce" in said


def test_a_switch_as_root_is_right():
    tree = Tree("t0", {"h0": 0, "h1": 1}, {"h0": "t0", "h1": "t0"}, SWITCHML)
    check(plan((SwitchAllReduce(0, 0),), (SwitchAllReduce(0, 0),), trees=(tree,)))
    atp = replace(tree, protocol=ATP)
    both = ((SwitchAllReduce(0, 0),),) * 2
    assert "protocol atp needs a host as its root" in faults(plan(*both, trees=(atp,)))


def test_one_who_uses_a_tree_without_being_on_it_is_found():
    tree = Tree("t0", {"h0": 0, "h1": 1}, {"h0": "t0", "h1": "t0"}, SWITCHML)
    said = faults(plan(*(((SwitchAllReduce(0, 0),),) * 3), trees=(tree,)))
    assert "rank 2 uses tree 0 without being on it" in said


def test_members_that_use_a_tree_in_different_orders_are_found():
    tree = Tree("t0", {"h0": 0, "h1": 1}, {"h0": "t0", "h1": "t0"}, SWITCHML)
    first = (SwitchAllReduce(0, 0), SwitchAllReduce(1, 0))
    said = faults(plan(first, first[::-1], chunks=2, trees=(tree,)))
    assert "ranks 0 and 1 use tree 0 in different orders" in said


def test_shares_make_up_the_bucket():
    right = replace(plan(swap(0), swap(1)), shares=(Fraction(1),))
    check(right)
    assert "do not add up" in faults(replace(right, shares=(Fraction(1, 2),)))


@given(
    st.lists(st.integers(1, 100), min_size=1, max_size=8),
    st.integers(0, 100_000),
    st.integers(1, 300),
)
def test_chunks_follow_their_shares(weights, elements, grain):
    shares = tuple(Fraction(weight, sum(weights)) for weight in weights)
    cuts = replace(plan(), chunks=len(shares), shares=shares).cuts(elements, grain)
    assert cuts[0] == 0
    assert cuts[-1] == elements
    for (start, end), share in zip(pairwise(cuts), shares, strict=True):
        assert start <= end
        assert start % grain == 0 or start == elements
        assert abs(end - start - share * elements) <= 2 * grain


def updating(*programs, workers=2, **consistency):
    bad = plan(*programs, (), workers=workers)
    return replace(bad, consistency=Consistency(**consistency))


@pytest.mark.parametrize("consistency", [{}, {"staleness": 0}, {"staleness": 2}, {"turns": True}])
def test_updates_are_right_whatever_binds_them(consistency):
    check(updating((Update(0, 3),), (Update(0, 3),), (Update(0, 3),), workers=3, **consistency))


def test_an_update_that_a_worker_leaves_out_is_missed_at_the_server():
    said = faults(updating((Update(0, 2),), ()))
    assert "rank 1 ends with {1: 1} in chunk 0" not in said
    assert "rank 2 ends with {0: 1} in chunk 0, wanted each worker's once" in said


def test_an_update_added_twice_is_counted_twice():
    twice = (Update(0, 2), Update(0, 2))
    assert "rank 2 ends with {0: 2, 1: 1} in chunk 0" in faults(updating(twice, (Update(0, 2),)))


def test_a_barrier_and_turns_wait_for_ever_for_an_update_left_out():
    alone = ((), (Update(0, 2),))
    assert "rank 1 waits for ever" in faults(updating(*alone, staleness=0))
    assert "rank 1 waits for ever" in faults(updating(*alone, turns=True))


def test_a_chunk_is_updated_somewhere_and_at_one_server_only():
    assert "chunk 0 is updated nowhere" in faults(updating((), ()))
    two = plan((Update(0, 2),), (Update(0, 3),), (), (), workers=2)
    said = faults(replace(two, consistency=Consistency()))
    assert "but rank 2 holds this chunk" in said


def test_updates_go_from_workers_to_servers_and_stand_alone():
    update = (Update(0, 2),)
    assert "wanted a worker's update at a server" in faults(updating((Update(0, 1),), update))
    said = faults(updating((*update, Send(0, 1)), update))
    assert "in a plan that consists of updates" in said
    assert "in a plan without a consistency" in faults(plan(update, update, (), workers=2))


def test_uses_of_two_trees_that_wait_for_each_other_in_turn_are_found():
    """Rank 0 sends chunk 0 after it has received chunk 1, and rank 2 does the reverse. In each
    tree, the use for the chunk to be sent is queued behind the use for the chunk to be received."""
    trees = tuple(
        Tree(f"t{i}", {a: 2 * i, b: 2 * i + 1}, {a: f"t{i}", b: f"t{i}"}, SWITCHML)
        for i, (a, b) in enumerate([("h0", "h1"), ("h2", "h3")])
    )
    said = faults(
        plan(
            (Receive(1, 2, False), SwitchAllReduce(1, 0), SwitchAllReduce(0, 0), Send(0, 2)),
            (SwitchAllReduce(1, 0), SwitchAllReduce(0, 0)),
            (Receive(0, 0, False), SwitchAllReduce(0, 1), SwitchAllReduce(1, 1), Send(1, 0)),
            (SwitchAllReduce(0, 1), SwitchAllReduce(1, 1)),
            chunks=2,
            trees=trees,
        )
    )
    assert "rank 1 waits for ever in SwitchAllReduce(chunk=0, tree=0)" in said


@pytest.mark.parametrize("name", sorted(registry))
def test_a_large_plan_is_checked_by_a_sample_of_its_chunks(name):
    fabric = leaf_spine(4, 20, 8, 1e10, 1e10, 1)
    fabric = fabric.with_ina(fabric.tors[:12])
    servers = fabric.hosts[-1:] if registry[name].servers[1] else ()
    job = Assignment(fabric.hosts[:150], servers, registry[name].settle({}), trace=load("resnet50"))
    right = registry[name].plan(job, fabric)
    check(right)
    damaged = list(right.programs)
    damaged[77] = damaged[77][1:]
    if registry[name].servers[1]:  # otherwise the fault may be in a chunk outside the sample
        assert "rank" in faults(replace(right, programs=tuple(damaged)))
    damaged[77] = ()
    assert "rank" in faults(replace(right, programs=tuple(damaged)))
