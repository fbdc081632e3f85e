"""What a system returns that is no plan of its job."""

from __future__ import annotations

from dataclasses import replace

import pytest

from testbed.plan.program import Plan, Receive, Send, Sharding, SwitchAllReduce
from testbed.plan.shape import misshapen

WORKERS = ("h0", "h1")
PLAN = Plan(
    system="mine",
    hosts=WORKERS,
    workers=2,
    chunks=1,
    programs=((Send(0, 1), Receive(0, 1, True)), (Receive(0, 0, True), Send(0, 0))),
)


def said(plan):
    return misshapen(plan, "mine", WORKERS, {"h0", "h1", "h2"})


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
        ({"programs": ((), (Send("a", 1),))}, "rank 1: found Send(chunk='a', to=1), wanted a chun"),
        ({"programs": ((Send(0, 9),), ())}, "wanted a to from 0 to 1"),
        ({"programs": ((Send(1, 0),), ())}, "wanted a chunk from 0 to 0"),
        ({"programs": ((SwitchAllReduce(0, 0),), ())}, "wanted a tree of the plan, which has none"),
        ({"sharding": Sharding(gather=((), 3))}, "rank 1: found the program 3"),
    ],
)
def test_each_wrong_part_is_named(changes, words):
    assert words in (said(replace(PLAN, **changes)) or "")


@pytest.mark.parametrize("plan", [None, {}, [1]])
def test_what_is_no_plan_is_refused(plan):
    assert said(plan) == f"found {plan!r}, wanted a Plan: its function has to return one"


def test_many_problems_are_counted():
    wrong = replace(PLAN, programs=((Send(5, 1),) * 10, ()))
    assert (said(wrong) or "").endswith("; and 7 more")
