"""``backend: simulate`` for everything that an experiment may contain."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tiny import experiment, file
from verbs import invoke

from testbed.backends.flow import backend
from testbed.backends.measurements import Stalled
from testbed.campaign.cell import run_cell
from testbed.campaign.planning import plan
from testbed.deployment.errors import DeploymentError
from testbed.deployment.experiments import read
from testbed.experiment.cells import distinct
from testbed.experiment.schema import Experiment
from testbed.placement.deployments import Deployments
from testbed.workload.buckets import BUCKET_BYTES

EXPERIMENTS = sorted((Path(__file__).parents[2] / "experiments").glob("*.yaml"))


def simulated(asked, tmp_path):
    """The rows of an experiment without a sweep."""
    (cell,) = distinct(asked)
    return run_cell(cell, Deployments().of(cell.experiment), tmp_path).jobs


def row(tmp_path, **changes):
    (only,) = simulated(experiment(tmp_path, backend="simulate", **changes), tmp_path)
    assert (only.verdict, only.verified) == ("valid", None)
    return only


def whole(options):
    """The options with one piece for each bucket: flows of small pieces take minutes."""
    return options | {"partition": BUCKET_BYTES} if "partition" in options else options


def short(asked: Experiment) -> Experiment:
    """The same experiment on the simulator, without loss and training, and with one iteration of
    each job."""
    less = {"iterations": 1, "warmup": 0, "training": None}
    jobs = tuple(
        job.model_copy(update=less | {"options": whole(job.options)}) for job in asked.jobs
    )
    emulation = asked.emulation.model_copy(update={"loss": 0.0})
    changes = {"jobs": jobs, "backend": "simulate", "emulation": emulation}
    return asked.model_copy(update=changes)


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda path: path.stem)
def test_every_experiment_can_be_simulated(path, tmp_path):
    first, *others = (
        replace(each, experiment=short(each.experiment)) for each in distinct(read(path))
    )
    for cell in plan([first, *others[-1:]]):
        if len(cell.deployment.jobs[0].plan.hosts) > 100:
            continue  # takes minutes
        for each in run_cell(cell.cell, cell.deployment, tmp_path).jobs:
            assert each.verdict == "valid" and each.jct_s > 0


def test_a_straggler_holds_all_back_where_there_is_a_barrier(tmp_path):
    slow = {"stragglers": {"workers": [1], "slowdown": 3}}
    served = {"jobs__0__system": "ps", "jobs__0__options": {"servers": "dedicated"}}
    barrier = row(tmp_path, jobs__0__compute=slow, **served)
    assert barrier.jct_s == pytest.approx(barrier.expected_jct_s, rel=0.05)
    assert barrier.jct_s > 1.1 * row(tmp_path, **served).jct_s


def test_a_job_starts_when_it_should_and_shares_links(tmp_path):
    job = {
        "system": "ring",
        "workload": str(tmp_path / "tiny.trace"),
        "workers": 3,
        "placement": "spread",
        "iterations": 2,
    }
    narrow = {"fabric__spines": 1, "fabric__fabric_rate": "1Gbit", "backend": "simulate"}

    def first(start):
        jobs = [job, job | {"start": start}]
        asked = experiment(tmp_path, jobs=jobs, fabric__hosts_per_leaf=[5, 5], **narrow)
        return simulated(asked, tmp_path)[0].jct_s

    assert first("0s") > 1.5 * first("1s")


def test_costs_of_steps_and_of_adding(tmp_path):
    plain = row(tmp_path).jct_s
    assert row(tmp_path, fabric__step_latency="1ms").jct_s == pytest.approx(plain + 2e-3)
    assert row(tmp_path, fabric__capacity="1Gbit").jct_s > 1.5 * plain


def test_too_little_memory_is_found_as_in_emulation(tmp_path):
    with pytest.raises(DeploymentError, match="slots: found 16, wanted at least"):
        row(tmp_path, jobs__0__system="switchml", fabric__slots=16, jobs__0__options={"window": 16})


def test_loss_is_refused_in_words(tmp_path):
    """A file with it does not load, but an experiment may be changed after that."""
    lossy = experiment(tmp_path, emulation__loss="1/100")
    with pytest.raises(DeploymentError, match="wanted 0 with backend: simulate"):
        simulated(lossy.model_copy(update={"backend": "simulate"}), tmp_path)


def test_one_cell_that_fails_is_counted_as_one(tmp_path, monkeypatch):
    def fails(*_):
        raise Stalled("its ranks wait for ever")

    monkeypatch.setattr(backend, "simulate", fails)
    path = file(tmp_path, backend="simulate")
    done = invoke("run", path, "-o", tmp_path / "out")
    assert done.exit_code == 1
    assert "1 cell failed; see the report" in done.output
    (run,) = (tmp_path / "out" / "tiny").iterdir()
    again = invoke("run", "--resume", run)  # `run FILE || run --resume DIR` must not hide it
    assert again.exit_code == 1
    assert "1 of 1 cells are finished, 1 failed (to run again: --retry failed)" in again.output
    assert "1 cell failed; see the report" in again.output
