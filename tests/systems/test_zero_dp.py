"""ZeRO: each worker owns a shard, and switches halve what a ring carries. Stage 3 gathers twice."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tiny import experiment

from testbed.campaign.cell import run_cell
from testbed.deployment.deploy import deploy
from testbed.deployment.errors import DeploymentError
from testbed.experiment.cells import distinct
from testbed.placement.deployments import Deployments
from testbed.placement.fabric import build_fabric
from testbed.plan import cost as model
from testbed.plan.checker import PlanError, check
from testbed.plan.program import Multicast, Sharding, SwitchReduce
from testbed.systems import Assignment, registry
from testbed.topology.builders import leaf_spine
from testbed.topology.framing import framing

ZERO = registry["zero-dp"]
BARE = leaf_spine(2, 3, 4, 1e10, 1e10, 10**6)


def planned(fabric, **options):
    made = ZERO.plan(Assignment(fabric.hosts, (), ZERO.settle(options)), fabric)
    check(made)
    return made


def test_every_worker_sums_its_shard_and_sends_it_to_all_others():
    made = planned(BARE.with_ina(BARE.tors))
    for owner in made.ranks:
        own = [op for op in made.programs[0] if op.chunk == owner]
        assert [type(op) for op in own] == [SwitchReduce, Multicast]
        for operation in own:
            tree = made.trees[operation.tree]
            assert (tree.root_rank, tree.root) == (owner, made.hosts[owner])
            assert set(tree.rank_of.values()) == set(made.ranks) - {owner}
            assert tree.streams == 1  # the owner's ToR sums all that comes


def test_with_switches_a_worker_sends_and_receives_the_gradient_once():
    rack = leaf_spine(1, 1, 16, 1e10, 1e10, 10**6)
    on_trees = model.seconds_per_byte(planned(rack.with_ina(["t0"])), rack) * 1e10 / 8
    ring = model.seconds_per_byte(planned(rack), rack) * 1e10 / 8
    packets = framing(rack)
    assert on_trees * packets.ina_efficiency == pytest.approx(1, rel=0.1)
    assert ring * packets.tcp_efficiency == pytest.approx(2 * 15 / 16, rel=0.05)


@pytest.mark.parametrize(
    ("asked", "system"), [("ring", "ring"), ("hierarchical", "hierarchical-ring")]
)
def test_rings_are_those_of_the_systems(asked, system):
    fabric = BARE.with_ina(BARE.tors)
    rings = registry[system].plan(Assignment(fabric.hosts), fabric)
    made = planned(fabric, collectives=asked)
    assert made.programs == rings.programs
    assert not made.trees


@pytest.mark.parametrize("collectives", ["trees", "ring", "hierarchical"])
def test_gathering_twice_costs_half_as_much_again(collectives):
    fabric = BARE.with_ina(BARE.tors)
    flows = model.flows(planned(fabric, collectives=collectives))
    for reshard, volume in ((True, 1.5), (False, 1.0)):
        made = planned(fabric, stage=3, collectives=collectives, reshard_after_forward=reshard)
        sharded = model.flows(made)
        assert sharded.keys() == flows.keys()
        hosts = {*made.hosts}
        sent, before = (
            sum(each for (source, to), each in found.items() if hosts & {source, to})
            for found in (sharded, flows)
        )
        assert sent == pytest.approx(volume * before)


def test_the_published_closed_form_of_a_ring():
    # ZeRO, section 7: 3(N-1)/N of the model instead of 2(N-1)/N.
    rack = leaf_spine(1, 1, 16, 1e10, 1e10, 10**6)
    pace = model.seconds_per_byte(planned(rack, stage=3), rack)
    assert pace * 1e10 / 8 * framing(rack).tcp_efficiency == pytest.approx(3 * 15 / 16, rel=0.05)


@pytest.mark.parametrize("collectives", ["trees", "ring", "hierarchical"])
def test_the_checker_sees_sums_without_an_owner_and_gaps_in_what_is_gathered(collectives):
    made = planned(BARE.with_ina(BARE.tors), stage=3, collectives=collectives)
    for broken in (
        replace(made, programs=((),) * len(made.hosts)),
        replace(made, sharding=Sharding(((),) * len(made.hosts))),
        replace(made, sharding=Sharding(made.programs)),
    ):
        with pytest.raises(PlanError):
            check(broken)


def test_parameters_that_all_workers_keep_are_not_resharded():
    with pytest.raises(ValueError, match="reshard_after_forward: found false, wanted true"):
        planned(BARE, reshard_after_forward=False)


def job(folder, **changes):
    settings = {"fabric__ina": "all", "jobs__0__system": "zero-dp", "fabric__spines": 1}
    settings["jobs__0__options"] = {"stage": 3, "collectives": "ring"}
    return experiment(folder, **settings | changes)


def cell(made, folder):
    (only,) = distinct(made)
    (row,) = run_cell(only, Deployments().of(only.experiment), folder).jobs
    return row


@pytest.mark.parametrize("collectives", ["trees", "ring", "hierarchical"])
def test_stage_3_in_flows_and_packets_is_near_the_closed_form(tmp_path, collectives):
    told = {"stage": 3, "collectives": collectives}
    jct = {}
    # In packets, small windows on many trees take slightly longer at the end of each collective.
    for backend, tolerance in (("simulate", 0.1), ("packet", 0.15)):
        row = cell(
            job(
                tmp_path, backend=backend, jobs__0__options=told, jobs__0__workload="gpt2",
                jobs__0__bucket="25MB", jobs__0__first_bucket="25MB", emulation__scale="1/256",
            ),
            tmp_path / backend,
        )  # fmt: skip
        assert (row.error, row.verdict) == ("", "valid")
        assert row.jct_s == pytest.approx(row.expected_jct_s, rel=tolerance)
        assert row.exposed_comm_s > 0
        jct[backend] = row.jct_s
    assert row.verified
    assert jct["packet"] == pytest.approx(jct["simulate"], rel=0.15)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("forward", "by_tensor", 'forward: found "by_tensor", wanted "whole"'),
        ("order", "priority", 'order: found "priority", wanted "backward"'),
        ("overlap", False, "overlap: found false, wanted true"),
    ],
)
def test_the_job_may_not_set_what_sharded_parameters_decide(tmp_path, key, value, message):
    made = job(tmp_path, **{f"jobs__0__{key}": value})
    with pytest.raises(DeploymentError) as refused:
        deploy(made, build_fabric(made))
    assert message in str(refused.value).replace("'", '"')
    assert refused.value.place == ("jobs", 0, key)
