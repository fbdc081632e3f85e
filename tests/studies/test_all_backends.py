"""The ladder's experiments run on all back ends."""

from __future__ import annotations

import pytest
from tiny import experiment

from testbed.deployment.experiments import reads
from testbed.experiment.cells import distinct
from testbed.located import write
from testbed.studies.all_backends import on_all


def backends(asked):
    return [cell.experiment.backend for cell in distinct(on_all(asked))]


def test_whatever_is_swept(tmp_path):
    assert backends(experiment(tmp_path)) == ["simulate", "packet", "emulate"]
    swept = experiment(tmp_path, sweep={"jobs.0.system": ["atp", "ring"]})
    assert sorted(backends(swept)) == ["emulate"] * 2 + ["packet"] * 2 + ["simulate"] * 2


def test_a_sweep_of_the_back_end_is_replaced(tmp_path):
    swept = experiment(tmp_path, sweep={"backend": ["simulate"], "jobs.0.workers": [3, 4]})
    assert sorted(backends(swept)) == ["emulate"] * 2 + ["packet"] * 2 + ["simulate"] * 2


def test_the_simulator_is_not_asked_for_losses(tmp_path):
    swept = experiment(tmp_path, sweep={"emulation.loss": [0, 0.01]})
    assert sorted(backends(swept)) == ["emulate"] * 2 + ["packet"] * 2 + ["simulate"]
    assert backends(experiment(tmp_path, emulation__loss=0.01)) == ["packet", "emulate"]
    copied = experiment(tmp_path, emulation__duplication={"all": 0.01})
    assert backends(copied) == ["packet", "emulate"]
    nothing = experiment(tmp_path, emulation__loss={"t0-s0": 0})
    assert backends(nothing) == ["simulate", "packet", "emulate"]


@pytest.mark.parametrize("name", ["loss", "duplication"])
def test_the_simulator_runs_the_swept_cells_that_lose_nothing(name, tmp_path):
    swept = {"sweep": {f"emulation.{name}": [{"all": 0}, {"all": 0.01}]}}
    some = ["emulate"] * 2 + ["packet"] * 2 + ["simulate"]
    assert sorted(backends(experiment(tmp_path, **swept))) == some
    replaced = experiment(tmp_path, **{f"emulation__{name}": 0.02}, **swept)
    assert sorted(backends(replaced)) == some


def test_sparse_values_are_in_whole_packets(tmp_path):
    """Without this, an experiment file with `backend: packet` would be refused."""
    job = {"jobs__0__system": "flare", "jobs__0__density": 0.02}
    sparse = experiment(tmp_path, backend="emulate", **job)
    assert reads(write(on_all(sparse).data())).emulation.carried_values == "all"
