"""Jobs in layer-priority order, forward passes that wait only for the tensors they need, routes."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from tiny import experiment

from testbed.campaign.cell import run_cell
from testbed.deployment.deploy import PRIORITY_CREDIT, deploy
from testbed.deployment.errors import DeploymentError
from testbed.experiment.cells import distinct
from testbed.experiment.schema import Experiment
from testbed.placement.deployments import Deployments
from testbed.placement.fabric import build_fabric
from testbed.plan.program import Pipelining
from testbed.results import Iteration, Row
from testbed.systems import registry

# The closed form of these systems is close enough; the contract tests all systems.
SUMMING = (
    "ps", "ring", "hierarchical-ring", "atp", "switchml", "netreduce", "rina", "grid", "osp",
)  # fmt: skip
WARMUP = 1


def told(folder: Path, system: str, order: str, forward: str, **changes) -> Experiment:
    """Four workers whose communication takes longer than their forward pass."""
    settings = {
        "backend": "simulate",
        "fabric__ina": "all",
        "fabric__spines": 1,
        "fabric__host_rate": "2Gbit",
        "jobs__0__system": system,
        "jobs__0__workload": "resnet50",
        "jobs__0__order": order,
        "jobs__0__forward": forward,
        "jobs__0__bucket": "4MB",
        "jobs__0__warmup": WARMUP,
        "emulation__scale": "1/128",
    }
    return experiment(folder, **settings | changes)


def run(made: Experiment, folder: Path) -> tuple[Row, list[Iteration]]:
    (cell,) = distinct(made)
    result = run_cell(cell, Deployments().of(cell.experiment), folder)
    (row,) = result.jobs
    return row, result.iterations


@pytest.mark.parametrize("system", SUMMING)
def test_both_together_hide_what_neither_does_alone(tmp_path, system):
    jct = {}
    for order in ("backward", "priority"):
        for forward in ("whole", "by_tensor"):
            # The last iteration, which does not overlap another one, hardly matters.
            made = told(tmp_path, system, order, forward, jobs__0__iterations=12)
            row, _ = run(made, tmp_path)
            jct[order, forward] = row.jct_s
            # This is a bound for rings, where units in flight use different links at any time.
            assert 0.97 * row.expected_jct_s <= row.jct_s <= 1.2 * row.expected_jct_s
    # In backward order the gradients of the first layers come last, but are needed first.
    assert jct["backward", "by_tensor"] == pytest.approx(jct["backward", "whole"], rel=0.01)
    if system == "osp":  # hides it already, by waiting an iteration for it
        assert jct["priority", "by_tensor"] == pytest.approx(jct["backward", "whole"], rel=0.01)
    else:
        assert jct["priority", "by_tensor"] < 0.97 * jct["backward", "whole"]


def test_all_ranks_of_a_job_send_the_same_units_in_the_same_order(tmp_path):
    made = told(tmp_path, "atp", "priority", "by_tensor", jobs__0__compute={"jitter": 0.5})
    (job,) = deploy(made, build_fabric(made)).jobs
    plain = told(tmp_path, "atp", "backward", "by_tensor")
    (ready,) = deploy(plain, build_fabric(plain)).jobs
    assert [unit.bucket for unit in ready.units] == sorted(unit.bucket for unit in ready.units)
    assert job.units != ready.units
    assert sorted(job.units, key=lambda unit: unit.bucket) == list(ready.units)
    # A unit that is not ready cannot go first, however soon it is needed.
    assert job.units[0].bucket == 0
    assert job.units[-1].bucket != ready.units[-1].bucket


def test_a_system_may_ask_for_the_order_itself(tmp_path, monkeypatch):
    """Like BytePS, whatever the job says; the system's credit stays."""
    ring = registry["ring"]

    def plan(job, fabric):
        return replace(ring.plan(job, fabric), pipelining=Pipelining(100_000, 7, "priority"))

    asked = told(tmp_path, "ring", "priority", "by_tensor")
    cut = replace(ring, plan=lambda *about: replace(plan(*about), pipelining=Pipelining(100_000)))
    monkeypatch.setitem(registry, "ring", cut)
    (by_job,) = deploy(asked, build_fabric(asked)).jobs
    plain = told(tmp_path, "ring", "backward", "by_tensor")
    monkeypatch.setitem(registry, "ring", replace(ring, plan=plan))
    (by_system,) = deploy(plain, build_fabric(plain)).jobs
    assert by_system.units == by_job.units
    assert by_system.plan.pipelining == Pipelining(100_000, 7, "priority")
    assert by_job.plan.pipelining == Pipelining(100_000, PRIORITY_CREDIT, "priority")


def test_a_route_that_leads_nowhere_is_refused(tmp_path, monkeypatch):
    ring = registry["ring"]
    routes = {("h0", "h4"): ("h0", "t0", "X", "t1", "h4")}
    astray = replace(ring, plan=lambda *about: replace(ring.plan(*about), routes=routes))
    monkeypatch.setitem(registry, "ring", astray)
    made = told(tmp_path, "ring", "backward", "whole")
    with pytest.raises(DeploymentError, match="via X, which is not a switch next to t0"):
        deploy(made, build_fabric(made))


def test_records_add_up(tmp_path):
    """A worker computes from start to end, except during stalls; the next iteration follows at
    once."""
    row, iterations = run(told(tmp_path, "atp", "priority", "by_tensor"), tmp_path)
    own = [each for each in iterations if each.rank == 2]
    compute_s = own[0].compute_end_s - own[0].start_s - own[0].stalled_s
    assert own[0].stalled_s > 0
    for before, after in pairwise(own):
        assert after.start_s == pytest.approx(before.compute_end_s)
        assert after.compute_end_s - after.start_s == pytest.approx(compute_s + after.stalled_s)
        assert before.end_s > after.start_s + after.stalled_s  # its sums arrive during the next one
    for each in own:
        times = [at for span in json.loads(each.stalls) for at in span]
        assert times == sorted(times)
        assert each.start_s <= times[0] and times[-1] < each.compute_end_s
        assert sum(times[1::2]) - sum(times[::2]) == pytest.approx(each.stalled_s)
    assert row.jct_s == pytest.approx(own[-1].end_s)
    assert row.exposed_comm_s == pytest.approx(row.iteration_s - compute_s)


def test_a_whole_forward_pass_does_not_stand_still(tmp_path):
    _, iterations = run(told(tmp_path, "atp", "priority", "whole"), tmp_path)
    assert {(each.stalled_s, each.stalls) for each in iterations} == {(0.0, "[]")}


def test_the_warm_up_counts_for_as_little_as_it_does_with_a_barrier(tmp_path):
    """Remaining communication of the warm-up does not count for the measured iterations."""
    served = {"jobs__0__options": {"servers": "dedicated"}}
    short, long = (
        run(
            told(tmp_path, "ps", "priority", "by_tensor", jobs__0__iterations=n, **served), tmp_path
        )[0]
        for n in (1, 6)
    )
    assert short.iteration_s == pytest.approx(long.iteration_s, rel=1e-3)


def test_without_sums_a_forward_pass_cannot_wait_for_some_of_them(tmp_path):
    made = told(tmp_path, "asp", "backward", "by_tensor")
    with pytest.raises(DeploymentError, match="found by_tensor, wanted whole for asp"):
        deploy(made, build_fabric(made))


def test_asynchronous_workers_may_send_in_layer_priority_order(tmp_path):
    row, _ = run(told(tmp_path, "asp", "priority", "whole"), tmp_path)
    assert row.jct_s == pytest.approx(row.expected_jct_s, rel=0.1)
