"""Slots of switches, divided among trees."""

from __future__ import annotations

from itertools import pairwise

import pytest

from testbed import wire
from testbed.deployment.errors import DeploymentError
from testbed.deployment.memory import allocate
from testbed.plan.program import Plan
from testbed.plan.trees import Tree
from testbed.protocols.allocation import Window
from testbed.protocols.atp.protocol import PROTOCOL as ATP
from testbed.protocols.switchml.protocol import PROTOCOL as SWITCHML


def plan(*trees):
    return Plan("toy", ("h0", "h1"), 2, 1, ((), ()), trees)


def tree(*switches):
    """A chain of switches above two members."""
    parent = {"h0": switches[0], "h1": switches[0]}
    parent |= dict(pairwise(switches))
    return Tree(switches[-1], {"h0": 0, "h1": 1}, parent, SWITCHML)


def test_only_trees_with_a_common_switch_have_different_slots():
    trees = tree("t0"), tree("t1"), tree("t0", "s0"), tree("t1", "s0")
    (found,) = allocate([(plan(*trees), Window(4))], 64)
    taken = {}
    for each in found:
        for switch in each.tree.switches:
            own = set(range(each.first, each.first + each.slots))
            assert len(own) == 8
            assert own <= set(range(64))
            assert not own & taken.setdefault(switch, set())
            taken[switch] |= own
    assert found[0].first == found[1].first
    assert len({each.number for each in found}) == len(found)


def test_slots_that_all_trees_of_a_protocol_share_are_no_other_trees():
    shared = Tree("ps", {"h0": 0, "h1": 1}, {"h0": "t0", "h1": "t0", "t0": "ps"}, ATP, 2)
    ((own, both),) = allocate([(plan(tree("t1", "t0"), shared), Window(4))], 64)
    assert (both.first, both.slots) == (0, 56)
    assert own.first >= 56


def test_a_switch_knows_only_so_many_trees():
    with pytest.raises(DeploymentError, match="found 257 trees at t0, of all jobs, wanted at most"):
        allocate([(plan(*[tree("t0")] * (wire.MAX_TREES + 1)), Window(1))], 4096)
    allocate([(plan(*[tree(f"t{number}") for number in range(300)]), Window(1))], 64)
