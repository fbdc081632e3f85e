"""Each cell is deployed once, whatever it is used for."""

from __future__ import annotations

import pytest
from tiny import experiment

from testbed.backends.recording import NOTHING
from testbed.campaign.evaluation import New
from testbed.campaign.local import Local
from testbed.campaign.planning import plan
from testbed.deployment.errors import DeploymentError
from testbed.experiment.cells import expand
from testbed.machine import capacity
from testbed.placement import deployments
from testbed.placement.deployments import Deployments
from testbed.run_tables import read
from testbed.systems import grid


@pytest.fixture
def solved(tmp_path, monkeypatch):
    """How often GRID's problem was solved, in forked processes, too."""
    path, route = tmp_path / "solved", grid.route

    def counting(job, fabric):
        with path.open("ab") as file:
            file.write(b"x")
        return route(job, fabric)

    monkeypatch.setattr(grid, "route", counting)
    return lambda: path.stat().st_size if path.exists() else 0


def test_grid_is_solved_once_for_estimates_repeats_runs_and_failures(tmp_path, solved):
    asked = experiment(
        tmp_path,
        backend="packet",
        fabric__ina="all",
        jobs__0__system="grid",
        jobs__0__options={"solver": "milp"},  # rounding draws anew in each repeat
        emulation__repeats=3,
        sweep={"emulation.loss": [0, 0.01], "jobs.0.workers": [3, 4]},
    )
    # The simulator fails on loss. A file that asks it for loss does not load.
    asked = asked.model_copy(update={"backend": "simulate"})
    run, failed = New(asked, tmp_path / "out").run(NOTHING, Local(), quiet=True)
    assert failed == 6
    assert len(read(run).results) == 12
    assert solved() == 2


def test_grid_is_solved_once_for_a_dilation_and_for_both_back_ends(tmp_path, solved):
    asked = experiment(
        tmp_path,
        fabric__ina="all",
        jobs__0__system="grid",
        emulation__dilation="auto",
        sweep={"backend": ["simulate", "emulate"]},
    )
    planned = New(asked, tmp_path).planned
    assert {each.cell.experiment.backend for each in planned} == {"simulate", "emulate"}
    assert {each.deployment.experiment.backend for each in planned} == {"simulate", "emulate"}
    assert solved() == 1


@pytest.mark.parametrize(("placement", "estimated"), [("spread", 1), ("random", 3)])
def test_repeats_with_one_deployment_share_its_estimate(
    placement, estimated, tmp_path, monkeypatch
):
    loaded, demand = [], capacity.demand

    def counting(deployment, known):
        loaded.append(deployment)
        return demand(deployment, known)

    monkeypatch.setattr(capacity, "demand", counting)
    asked = experiment(
        tmp_path, backend="packet", jobs__0__placement=placement, emulation__repeats=3
    )
    planned = New(asked, tmp_path).planned
    assert len(loaded) == estimated
    own = [each.cell.experiment.emulation.seed for each in planned]
    assert len({*own}) == 3
    assert [each.deployment.experiment.emulation.seed for each in planned] == own


def test_what_cannot_be_deployed_is_found_once_and_said_each_time(tmp_path, monkeypatch):
    tried = []

    def deploy(experiment, fabric):
        tried.append(experiment)
        raise DeploymentError("no room")

    monkeypatch.setattr(deployments, "deploy", deploy)
    kept, asked = Deployments(), experiment(tmp_path)
    for _ in range(2):
        with pytest.raises(DeploymentError, match="no room"):
            kept.of(asked)
    assert len(tried) == 1


def test_slots_that_are_too_few_for_all_jobs_are_found_before_anything_runs(tmp_path):
    job = {"system": "switchml", "workload": "synthetic/1MB", "options": {"window": 20}}
    asked = experiment(
        tmp_path,
        backend="packet",
        fabric__ina="all",
        fabric__slots=64,
        jobs=[{**job, "workers": ["h0", "h1"]}, {**job, "workers": ["h2", "h3"]}],
    )
    with pytest.raises(DeploymentError, match="found 64, wanted at least 80 for the windows of al"):
        New(asked, tmp_path / "out").run(NOTHING, Local(), quiet=True)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("backend", "scale", "loss", "said"),
    [
        ("packet", "1/128", 0, "the latency of 6 dependent steps does not shrink with the job"),
        ("packet", "1/128", 0.01, "hosts' timeouts do not shrink with a job"),
        ("packet", 1, 0.01, None),
        ("packet", 1, 0, None),
        ("simulate", "1/128", 0, None),
    ],
)
def test_a_scale_that_distorts_times_is_named_before_a_run(tmp_path, backend, scale, loss, said):
    asked = experiment(
        tmp_path,
        backend=backend,
        jobs__0__system="ring",
        jobs__0__workload="synthetic/1MB",
        jobs__0__workers=4,
        emulation={"scale": scale, "loss": loss},
    )
    (planned,) = plan(expand(asked))
    assert said is None if planned.warning is None else said in planned.warning


def test_a_fault_that_lasts_much_longer_than_the_jobs_is_named_before_a_run(tmp_path):
    named = "emulation.faults.0.until: found a fault of"
    outage, impairment = {"host": "h0"}, {"link": "h0-t0", "loss": 0.01}
    for until, what, said in (
        ("1h", outage, named),
        ("20ms", outage, None),
        ("1h", impairment, None),
    ):
        faults = [{"at": "10ms", "until": until, **what}]
        asked = experiment(tmp_path, backend="packet", emulation__faults=faults)
        (planned,) = plan(expand(asked))
        assert said is None if planned.warning is None else said in planned.warning


def test_a_capacity_that_the_emulator_does_not_enforce_is_named_before_a_run(tmp_path):
    for backend, limit, named in (
        ("emulate", "5Gbit", True),
        ("emulate", "100Gbit", False),  # links are slower
        ("packet", "5Gbit", False),
    ):
        asked = experiment(
            tmp_path,
            backend=backend,
            fabric__ina="all",
            fabric__capacity=limit,
            emulation__dilation=10000,
        )
        (planned,) = plan(expand(asked))
        assert (planned.warning or "").startswith("fabric.capacity: ") == named
