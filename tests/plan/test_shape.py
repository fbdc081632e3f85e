"""What a system returns that is no plan of its job."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from testbed.plan.program import Pipelining, Plan, Receive, Send, Sharding, SwitchAllReduce
from testbed.plan.shape import misshapen
from testbed.plan.trees import Tree
from testbed.protocols.rack.protocol import PROTOCOL as RACK
from testbed.protocols.switchml.protocol import PROTOCOL as SWITCHML

WORKERS = ("h0", "h1")
PLAN = Plan(
    system="mine",
    hosts=WORKERS,
    workers=2,
    chunks=1,
    programs=((Send(0, 1), Receive(0, 1, True)), (Receive(0, 0, True), Send(0, 0))),
)


def said(plan):
    return misshapen(plan, "mine", WORKERS, {"h0", "h1", "h2"}, {"t0"})


def test_a_plan_is_well_shaped():
    assert said(PLAN) is None
    assert said(replace(PLAN, hosts=("h0", "h1", "h2"), programs=((), (), ()))) is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"system": "other"}, "system: found 'other', wanted 'mine'"),
        ({"hosts": (0, 1)}, "hosts: found 0, wanted the name of a host of the fabric; found 2 w"),
        ({"hosts": ("h0", "zz")}, "hosts: found 'zz'"),
        ({"hosts": None}, "hosts: found None, wanted a tuple of hosts"),
        ({"hosts": ("h1", "h0")}, "found 2 workers on h1, h0, wanted the job's 2 workers"),
        ({"workers": 1}, "found 1 workers on h0, h1"),
        ({"chunks": 10**9}, "chunks: found 1000000000, wanted a whole number from 1 to 1048576"),
        ({"chunks": 0.5}, "chunks: found 0.5"),
        ({"programs": 7}, "programs: found 7, wanted a tuple with a program for each rank"),
        ({"programs": (1, 2)}, "rank 0: found the program 1, wanted a tuple of operations; rank 1"),
        ({"programs": ((), ((0, 1),))}, "rank 1: found (0, 1), wanted an operation: Send, Receive"),
        ({"programs": ((), (Send("a", 1),))}, "rank 1: found Send(chunk='a', to=1), wanted chunk"),
        ({"programs": ((Send(0, 9),), ())}, "wanted to from 0 to 1"),
        ({"programs": ((Send(1, 0),), ())}, "wanted chunk from 0 to 0"),
        ({"programs": ((Send(0, 1),) * 2, (Send(0, 1),))}, "rank 1: found a transfer from or to i"),
        ({"programs": ((Send(0, 1),),) * 2}, "rank 1: found a transfer from or to itself, wanted"),
        ({"programs": ((Receive(0, 0, True),), ())}, "rank 0: found a transfer from or to itself"),
        ({"programs": ((SwitchAllReduce(0, 0),), ())}, "wanted a tree of the plan, which has none"),
        ({"sharding": Sharding(gather=((), 3))}, "rank 1: found the program 3"),
        ({"sharding": 3}, "sharding: found 3, wanted None or a Sharding"),
        ({"programs": ((),)}, "programs: found 1, wanted one for each of 2 ranks"),
        ({"shares": (1, 0)}, "shares: found (1, 0), wanted None or one for each of 1 chunks"),
        ({"shares": 5}, "shares: found 5, wanted"),
        ({"shares": ("a",)}, "shares: found 'a', wanted a Fraction from 0 to 1"),
        ({"shares": (Fraction(-1),)}, "wanted a Fraction from 0 to 1"),
        ({"sent": 0}, "sent: found 0, wanted a share more than 0 and at most 1"),
        ({"sent": float("nan")}, "sent: found nan"),
        ({"sent": 2}, "sent: found 2"),
        ({"deferred": None}, "deferred: found None, wanted a set of numbers of tensors"),
        ({"deferred": {"a"}}, "deferred: found {'a'}"),
        ({"consistency": 1}, "consistency: found 1, wanted None or a Consistency"),
        ({"pipelining": None}, "pipelining: found None, wanted a Pipelining"),
        ({"pipelining": Pipelining(credit=0)}, "pipelining: found credit=0, wanted None or a whol"),
        ({"pipelining": Pipelining(partition=0)}, "pipelining: found partition=0"),
        ({"pipelining": Pipelining(order="x")}, "pipelining: found order='x', wanted 'backward'"),
        ({"routes": None}, "routes: found None, wanted a dict"),
        ({"routes": {"x": 3}}, "routes: found 'x': 3, wanted (source, destination)"),
        ({"trees": None}, "trees: found None, wanted a tuple of trees"),
        ({"trees": ("a",)}, "tree 0: found 'a', wanted a Tree"),
    ],
)
def test_each_wrong_part_is_named(changes, words):
    assert words in (said(replace(PLAN, **changes)) or "")


RACK_TREE = Tree("t0", {"h0": 0, "h1": 1}, {"h0": "t0", "h1": "t0"}, SWITCHML)
ALL_REDUCE = (SwitchAllReduce(0, 0),)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, None),
        ({"root": "t1", "parent": {"h0": "t1", "h1": "t1"}}, "found 't1' as a node that sums, "),
        ({"root": "zz"}, "found 'zz' as a node that sums, wanted a switch with INA"),
        ({"root": "h2", "parent": {"h0": "h2", "h1": "h2"}}, "found 'h2' as a node that sums"),
        ({"parent": {"h0": "t0", "h1": "h0"}}, "found 'h0' as a node that sums"),
        ({"root": "h1", "root_rank": 1, "protocol": RACK, "rank_of": {"h0": 0},
          "parent": {"h0": "t0", "t0": "h1"}}, None),
        ({"root": "h1", "root_rank": 99}, "found root_rank 99, wanted None or a rank from 0 to 1"),
        ({"rank_of": {"h0": 0, "h1": 7}}, "found rank 7 for 'h1', wanted a rank from 0 to 1"),
        ({"rank_of": None}, "found rank_of None, wanted a dict with the rank of each member"),
        ({"rank_of": {"h0": 0, "h9": 1}}, "found 'h9', wanted the name of a host of the fabric"),
        ({"parent": 5}, "found parent 5, wanted a dict with the parent of each node"),
        ({"parent": {"h0": "t0", "h1": "t0", "h2": "t0"}}, "found 'h2' with a parent, wanted memb"),
        ({"protocol": None}, "found protocol None, wanted the PROTOCOL of one in testbed"),
        ({"turn": 0.5}, "found turn 0.5, wanted a whole number"),
    ],
)  # fmt: skip
def test_each_wrong_part_of_a_tree_is_named(changes, words):
    tree = replace(RACK_TREE, **changes)
    found = said(replace(PLAN, trees=(tree,), programs=(ALL_REDUCE, ALL_REDUCE)))
    assert found is None if words is None else f"tree 0: {words}" in (found or "")


@pytest.mark.parametrize("plan", [None, {}, [1]])
def test_what_is_no_plan_is_refused(plan):
    assert said(plan) == f"found {plan!r}, wanted a Plan: its function has to return one"


def test_many_problems_are_counted():
    wrong = replace(PLAN, programs=((Send(5, 1),) * 10, ()))
    assert (said(wrong) or "").endswith("; and 7 more")
