"""Slots of switches, divided among trees."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from testbed import wire
from testbed.campaign.planning import check_slots
from testbed.deployment.deploy import deploy
from testbed.deployment.errors import DeploymentError
from testbed.deployment.memory import allocate
from testbed.experiment.schema import Experiment
from testbed.placement.fabric import build_fabric
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


def deployed(slots, jobs):
    """Three jobs, or fewer, on two racks whose switches all sum, with enough or too few slots."""
    fabric = {"kind": "leaf-spine", "spines": 1, "leaves": 2, "hosts_per_leaf": 8}
    experiment = Experiment.model_validate(
        {
            "schema_version": 1,
            "name": "memory",
            "backend": "simulate",
            "fabric": {**fabric, "host_rate": "10Gbit", "ina": "all", "slots": slots},
            "jobs": jobs,
        }
    )
    check_slots(deploy(experiment, build_fabric(experiment)))


@given(
    st.lists(st.sampled_from(["switchml", "atp", "flare", "rina"]), min_size=1, max_size=3),
    st.integers(1, 40),
    st.sampled_from(["spread", "packed"]),
)
@example(["switchml"] * 3, 12, "spread")
@example(["switchml"], 1, "spread")
@settings(max_examples=25, deadline=None)
def test_advice_that_is_followed_is_accepted(systems, slots, placement):
    common = {"workload": "synthetic/1MB", "workers": 4, "placement": placement}
    jobs = [{"system": system, **common} for system in systems]
    try:
        deployed(slots, jobs)
    except DeploymentError as error:
        said = str(error)
    else:
        return
    (more,) = re.findall(r"write fabric.slots: (\d+)", said)
    deployed(int(more), jobs)
    with pytest.raises(DeploymentError):
        deployed(int(more) - 1, jobs)
    for window in map(int, re.findall(r"window: (\d+)", said)):
        deployed(slots, [{**job, "options": {"window": window}} for job in jobs])
        with pytest.raises(DeploymentError):
            deployed(slots, [{**job, "options": {"window": window + 1}} for job in jobs])


def test_jobs_for_which_no_slots_are_enough_are_told_so():
    jobs = [(plan(tree("t0")), Window(1500))] * 2
    with pytest.raises(
        DeploymentError, match=r"wanted at least 6000 .*; write options: {window: 1024}, or"
    ):
        allocate(jobs, 4096)
    with pytest.raises(DeploymentError, match=r"wanted at least 6000 .*; run fewer jobs at once"):
        allocate([(made, replace(window, message=10)) for made, window in jobs], 4096)


def test_a_switch_knows_only_so_many_trees():
    with pytest.raises(DeploymentError, match="found 257 trees at t0, of all jobs, wanted at most"):
        allocate([(plan(*[tree("t0")] * (wire.MAX_TREES + 1)), Window(1))], 4096)
    allocate([(plan(*[tree(f"t{number}") for number in range(300)]), Window(1))], 64)
