"""Rina: groups, agents, and plans with INA everywhere or nowhere."""

from __future__ import annotations

from dataclasses import replace

import pytest
from shapes import assignments, bare_fabrics, deployments, planned
from tiny import data

import testbed
from testbed.plan import chain
from testbed.plan import cost as model
from testbed.plan.checker import check
from testbed.plan.program import Multicast, Receive, Send, SwitchAllReduce, SwitchReduce
from testbed.protocols.rack.protocol import PROTOCOL as RACK
from testbed.protocols.switchml.protocol import PROTOCOL as SWITCHML
from testbed.systems import Assignment, registry
from testbed.systems.racks import Group
from testbed.systems.rina import groups
from testbed.topology.builders import fat_tree, leaf_spine
from testbed.topology.framing import Framing
from testbed.workload.catalogue import load

RINA = registry["rina"]
FABRIC = leaf_spine(2, 3, 4, 1e10, 1e10, 10**6)
HOSTS = FABRIC.hosts
INA = 1 / Framing().ina_efficiency


def rina(workers, ina, reading="agent", **options):
    asked = options | {"reading": reading, "groups": "always"}
    job = Assignment(tuple(workers), options=RINA.settle(asked))
    plan = RINA.plan(job, FABRIC.with_ina(ina))
    check(plan)
    return plan


@pytest.mark.parametrize(
    ("reading", "alone_in_its_rack"),
    [("stream", Group(("h8",), "h8", "t2")), ("agent", Group(("h8",), "h8"))],
)
def test_a_rack_with_ina_is_one_group(reading, alone_in_its_rack):
    job = Assignment(HOSTS[:9], options={"reading": reading})
    assert groups(job, FABRIC.with_ina(["t1", "t2"])) == (
        *(Group((host,), host) for host in HOSTS[:4]),
        Group(HOSTS[4:8], "h4", "t1"),
        alone_in_its_rack,
    )


def test_tors_add_the_only_workers_of_their_racks_to_the_stream():
    plan = rina(("h0", "h4", "h8"), ["t0", "t1", "t2"], "stream")
    (tree,) = plan.trees
    assert plan.programs == ((SwitchAllReduce(0, 0),),) * 3
    # t0 has nothing to add.
    assert tree.parent == {"h0": "t1", "h4": "t1", "t1": "t2", "h8": "t2"}


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
    # h0 sums chunk 0 in its rack for h4, gets the sum of chunk 1 from h4's rack, and so on.
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


@pytest.mark.parametrize("reading", ["stream", "agent"])
def test_one_worker_has_nobody_to_sum_with(reading):
    assert rina(["h0"], ["t0"], reading).trees == ()


@pytest.mark.parametrize("reading", ["stream", "agent"])
def test_groups_sum_exactly_once_on_any_shape(reading):
    options = {"reading": reading, "groups": "always"}
    for bare in bare_fabrics():
        for fabric in deployments(bare):
            for workers in (w for w in (2, 5, 16) if w <= len(bare.hosts)):
                for job in assignments(RINA, fabric, workers):
                    planned(RINA, replace(job, options=RINA.settle(options)), fabric, [])


def test_adjacent_racks_are_one_position_also_across_the_end():
    assert rina(HOSTS, ["t0", "t1"], "stream").chunks == 4 + 1
    # From the last rack the ring leads to the first one.
    assert rina(HOSTS, ["t0", "t2"], "stream").chunks == 4 + 1
    plan = rina(HOSTS, ["t0", "t1", "t2"], "stream")
    (tree,) = plan.trees
    assert plan.programs == ((SwitchAllReduce(0, 0),),) * 12
    assert (tree.root, tree.parent["t0"], tree.parent["t1"]) == ("t2", "t1", "t2")


def test_a_stream_is_one_more_child_of_the_next_tor():
    plan = rina(("h0", "h4", "h5", "h8"), ["t1"], "stream")
    before, after = 0, 3  # their positions come before and after that of the rack
    through = next(
        tree
        for tree in plan.trees
        if tree.root_rank == after and set(tree.rank_of.values()) == {before, 1, 2}
    )
    assert set(through.children("t1")) == {"h0", "h4", "h5"}
    assert through.parent["t1"] == "h8"
    # If a chunk ends in the rack, the worker before the rack also gets the sum from the ToR.
    (returned,) = [tree for tree in plan.trees if tree.protocol is SWITCHML]
    assert set(returned.children("t1")) == {"h0", "h4", "h5"}


def test_members_of_a_chain_send_and_receive_the_gradient_once():
    fabric = FABRIC.with_ina(["t0", "t1"])
    loads = model.link_loads(rina(HOSTS, ["t0", "t1"], "stream"), fabric)
    chunk = 1 / 5  # the last agent passes on the chunk that ends there
    for host in HOSTS[:8]:
        up, down = loads[host, fabric.tor_of(host)], loads[fabric.tor_of(host), host]
        assert INA <= up < INA * (1 + chunk * (host == "h4")) + 0.1
        assert INA <= down < INA + 0.1
    by_agents = model.link_loads(rina(HOSTS, ["t0", "t1"]), fabric)
    assert by_agents["t0", "h0"] > 1.7 * loads["t0", "h0"]


def test_streams_on_a_chain_take_turns_with_the_links_up():
    fabric = FABRIC.with_ina(FABRIC.tors)
    loads = model.link_loads(rina(HOSTS, FABRIC.tors, "stream"), fabric)
    middle = [loads["t1", spine] for spine in ("s0", "s1")]
    assert middle == pytest.approx([INA, INA])


@pytest.mark.parametrize("reading", ["stream", "agent"])
def test_groups_form_only_where_they_gain(reading):
    plain = registry["ring"].plan(Assignment(HOSTS), FABRIC).programs
    costly = replace(FABRIC, step_latency=0.1)

    def programs(fabric, ina):
        options = RINA.settle({"reading": reading})
        return RINA.plan(Assignment(HOSTS, options=options), fabric.with_ina(ina)).programs

    assert programs(FABRIC, ["t0"]) == plain
    assert programs(costly, ["t0"]) != plain  # a shorter chain
    assert programs(FABRIC, FABRIC.tors) != plain


@pytest.mark.parametrize(
    ("workload", "count", "gain"),
    [
        ("bert-base", 4, False),
        ("bert-base", 5, True),  # an iteration takes 11 % less, a single bucket more
        ("resnet50", 5, False),  # 1 % less
        ("vgg16", 5, False),  # its largest bucket takes much longer
        ("vgg16", 6, True),
    ],
)
def test_groups_form_if_the_job_gains(workload, count, gain):
    tree = fat_tree(4, 2, 1e10, 1e10, 512_000)
    fabric = tree.with_ina(tree.tors[:count])
    options = RINA.settle({})
    job = Assignment(tree.hosts[:12], options=options, trace=load(workload))
    assert bool(RINA.plan(job, fabric).trees) == gain


def test_agents_do_not_wait_for_buckets_that_workers_have_not_brought(tmp_path):
    """With more than two buckets in flight, the simulated time is 25 % above the closed form."""
    asked = data(
        tmp_path, backend="simulate", jobs__0__system="rina", jobs__0__workload="bert-base",
        jobs__0__bucket="25MB", jobs__0__first_bucket="1MB", jobs__0__workers=12,
        jobs__0__options={"reading": "agent", "groups": "always"},
        jobs__0__iterations=1, jobs__0__warmup=0,
        fabric={"kind": "fat-tree", "k": 4, "host_rate": "10Gbit", "ina": 0.5},
    )  # fmt: skip
    (row,) = testbed.run(asked, tmp_path / "results").results.itertuples()
    assert row.jct_s < 1.1 * row.expected_jct_s


CHAINS = {
    "fabric__spines": 1,
    "fabric__leaves": 3,
    "fabric__hosts_per_leaf": [3, 3, 2],
    "fabric__ina": ["t0", "t1"],
    "jobs__0__system": "rina",
    "jobs__0__workers": 8,
}


@pytest.mark.parametrize("reading", ["stream", "agent"])
def test_groups_beside_single_workers_sum_exactly_in_packets(reading, tmp_path):
    options = {"reading": reading, "groups": "always"}
    asked = data(tmp_path, backend="packet", jobs__0__options=options, **CHAINS)
    (row,) = testbed.run(asked, tmp_path / "results").results.itertuples()
    assert (row.error, row.verified) == ("", True)
    assert row.switch_sums > 0


@pytest.mark.root
def test_streams_through_tors_sum_exactly_in_the_emulator(tmp_path):
    asked = data(tmp_path, jobs__0__options={"groups": "always"}, **CHAINS)
    (row,) = testbed.run(asked, tmp_path / "results").results.itertuples()
    assert (row.error, row.verified) == ("", True)
    assert row.switch_sums > 0


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
