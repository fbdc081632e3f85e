"""Rina: groups, agents, and what it becomes with INA everywhere or nowhere."""

from __future__ import annotations

import pytest

from testbed.plan import chain
from testbed.plan import cost as model
from testbed.plan.checker import check
from testbed.plan.program import Multicast, Receive, Send, SwitchAllReduce, SwitchReduce
from testbed.protocols.rack.protocol import PROTOCOL as RACK
from testbed.protocols.switchml.protocol import PROTOCOL as SWITCHML
from testbed.systems import Assignment, registry
from testbed.systems.rina import Group, groups
from testbed.topology.builders import leaf_spine

RINA = registry["rina"]
FABRIC = leaf_spine(2, 3, 4, 1e10, 1e10, 10**6)
HOSTS = FABRIC.hosts


def rina(workers, ina, **options):
    job = Assignment(tuple(workers), options=RINA.settle(options))
    plan = RINA.plan(job, FABRIC.with_ina(ina))
    check(plan)
    return plan


def test_a_rack_with_ina_is_one_group():
    ring = groups(Assignment(HOSTS[:9]), FABRIC.with_ina(["t1", "t2"]))
    assert ring == (
        *(Group((host,), host) for host in HOSTS[:4]),
        Group(HOSTS[4:8], "h4", "t1"),
        Group(("h8",), "h8"),  # alone in its rack
    )


def test_the_lowest_rank_is_the_agent_wherever_it_sits():
    (group,) = groups(Assignment(("h6", "h4", "h5")), FABRIC.with_ina(["t1"]))
    assert group.agent == "h6"


def test_without_ina_it_is_a_ring():
    ring = registry["ring"].plan(Assignment(HOSTS), FABRIC)
    plan = rina(HOSTS, [])
    assert plan.programs == ring.programs
    assert plan.chunks == ring.chunks
    assert plan.trees == ()
    assert chain.length(plan) == chain.length(ring)


def test_one_rack_with_ina_costs_what_switchml_does():
    fabric = FABRIC.with_ina(["t0"])
    switchml = registry["switchml"].plan(Assignment(HOSTS[:4], HOSTS[4:5]), fabric)
    plan = rina(HOSTS[:4], ["t0"])
    assert plan.programs == switchml.programs
    assert plan.trees == switchml.trees
    assert model.link_loads(plan, fabric) == model.link_loads(switchml, fabric)


def test_two_racks_exchange_sums_through_their_agents():
    plan = rina(("h0", "h1", "h4", "h5"), ["t0", "t1"])
    agent, other = plan.programs[0], plan.programs[1]
    # h0 sums its rack's chunk 0 for h4, takes h4's rack's sum of chunk 1, and so on.
    local, up, down, _, up_there, down_there = range(6)
    assert agent == (
        SwitchReduce(0, up),
        SwitchReduce(1, up_there),
        SwitchAllReduce(1, local),
        Multicast(1, down_there),
        Multicast(0, down),
    )
    assert other == (
        SwitchReduce(0, up),
        SwitchAllReduce(1, local),
        Multicast(0, down),
    )
    assert [tree.protocol for tree in plan.trees] == [SWITCHML, RACK, RACK] * 2
    assert plan.trees[up].root == plan.trees[down].root == "h4"
    assert plan.trees[up].parent == {"h0": "t0", "h1": "t0", "t0": "h4"}


def test_an_autonomous_worker_sends_and_receives():
    plan = rina(("h0", "h1", "h4"), ["t0"])
    _, up, down = range(3)
    assert plan.programs[2] == (
        SwitchReduce(0, up),
        Send(1, 0),
        Receive(1, 0, reduce=False),
        Multicast(0, down),
    )


@pytest.mark.parametrize(
    ("ina", "group_count"), [(["t0"], 9), (["t0", "t1"], 6), (["t0", "t1", "t2"], 3)]
)
def test_the_chain_is_as_long_as_there_are_groups(ina, group_count):
    plan = rina(HOSTS, ina)
    assert plan.chunks == group_count
    assert chain.length(plan) == 2 * (group_count - 1) + 1


def test_agents_can_be_asked_for():
    plan = rina(HOSTS[:8], ["t0", "t1"], agents=["h2"])
    roots = {tree.root for tree in plan.trees if tree.protocol is RACK}
    assert roots == {"h2", "h4"}


@pytest.mark.parametrize(
    ("agents", "words"),
    [
        (["h8"], "h8 cannot be an agent: it is the job's only worker in the rack of t2"),
        (["h4"], "h4 cannot be an agent: its ToR t1 does not aggregate"),
        (["h0", "h1"], "h1 cannot be an agent: h0 is asked for in the same rack"),
        (["h11"], "h11 cannot be an agent: it is not a worker of the job"),
    ],
)
def test_who_cannot_be_an_agent_is_refused(agents, words):
    with pytest.raises(ValueError, match=words):
        rina(HOSTS[:9], ["t0", "t2"], agents=agents)


@pytest.mark.parametrize("agents", ["h0", 3, [3], None])
def test_agents_are_a_list_of_hosts(agents):
    with pytest.raises(ValueError, match=r"option agents: .*wanted a list of hosts"):
        RINA.settle({"agents": agents})
