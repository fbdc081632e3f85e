"""The ladder's experiments run on both back ends."""

from __future__ import annotations

from tiny import experiment

from testbed.experiment.cells import distinct
from testbed.studies.both_backends import on_both


def backends(asked):
    return [cell.experiment.backend for cell in distinct(on_both(asked))]


def test_whatever_is_swept(tmp_path):
    assert backends(experiment(tmp_path)) == ["simulate", "emulate"]
    swept = experiment(tmp_path, sweep={"jobs.0.system": ["atp", "ring"]})
    assert sorted(backends(swept)) == ["emulate"] * 2 + ["simulate"] * 2


def test_a_sweep_of_the_back_end_is_replaced(tmp_path):
    swept = experiment(tmp_path, sweep={"backend": ["simulate"], "jobs.0.workers": [3, 4]})
    assert sorted(backends(swept)) == ["emulate"] * 2 + ["simulate"] * 2
