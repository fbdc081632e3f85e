"""The chain of a plan: what can happen at the same time, and what has to wait."""

from __future__ import annotations

from testbed.plan import chain
from testbed.plan.chain import Transfer
from testbed.plan.program import Multicast, Plan, Receive, Send, SwitchReduce, Update
from testbed.plan.trees import Tree
from testbed.protocols.rack.protocol import PROTOCOL as RACK
from testbed.systems import Assignment, registry
from testbed.topology.builders import leaf_spine


def plan(*programs, chunks=1, trees=()):
    hosts = tuple(f"h{rank}" for rank in range(len(programs)))
    return Plan("made up", hosts, len(programs), chunks, programs, trees)


def test_what_waits_for_nothing_happens_at_once():
    exchange = [(Send(0, 1 - rank), Receive(0, 1 - rank, reduce=True)) for rank in (0, 1)]
    assert chain.steps(plan(*exchange)) == [[Transfer(0, 1, 0), Transfer(0, 0, 1)]]


def test_what_was_received_is_sent_on_in_the_next_step():
    relay = plan(
        (Send(0, 1),),
        (Receive(0, 0, reduce=True), Send(0, 2)),
        (Receive(0, 1, reduce=True),),
    )
    assert chain.steps(relay) == [[Transfer(0, 0, 1)], [Transfer(0, 1, 2)]]
    assert chain.length(relay) == 2


def test_chunks_do_not_wait_for_each_other():
    relay = ((Send(0, 1), Send(1, 1)), (Receive(0, 0, True), Receive(1, 0, True), Send(1, 0)))
    assert chain.length(plan(*relay, chunks=2)) == 2


def test_everyone_on_a_tree_waits_for_the_last_one():
    both = {"h0": "t0", "h1": "t0", "t0": "h2"}
    tree = Tree("h2", {"h0": 0, "h1": 1}, both, RACK, root_rank=2)
    up, down = SwitchReduce(0, 0), Multicast(0, 1)
    late, others, far = (Receive(0, 3, reduce=True), up, down), (up, down), (Send(0, 0),)
    late = plan(late, others, others, far, trees=(tree,) * 2)
    assert chain.steps(late) == [[Transfer(0, 3, 0)], [up], [down]]


def test_an_update_is_a_push_and_a_pull():
    pushed = plan((Update(0, 2),), (Update(0, 2),), ())
    push, pull = chain.steps(pushed)
    assert sorted(transfer.source for transfer in push) == [0, 1]
    assert [transfer.source for transfer in pull] == [2, 2]


def test_a_ring_has_as_many_transfers_in_every_step_as_ranks():
    fabric = leaf_spine(1, 1, 5, 1, 1, 1)
    steps = chain.steps(registry["ring"].plan(Assignment(fabric.hosts), fabric))
    assert [len(step) for step in steps] == [5] * 8


def test_what_waits_for_ever_does_not_appear():
    assert chain.steps(plan((Receive(0, 1, reduce=True), Send(0, 1)), ())) == []
