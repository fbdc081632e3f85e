"""Which switches to make programmable, asked of an experiment."""

from __future__ import annotations

import pytest
from tiny import experiment

from testbed.harness.errors import DeploymentError
from testbed.harness.placing import answer, text


def test_the_answer_for_an_experiment(tmp_path):
    asked = experiment(tmp_path, fabric__hosts_per_leaf=[4, 2], jobs__0__workers=5)
    # Four workers under t0, one and the server under t1: four streams become one.
    placed = answer(asked, 1)
    assert placed.is_exact and placed.jct_s < placed.without_s
    said = text(asked, placed).splitlines()
    assert said[0] == f"programmable: {placed.switches[0]}" and said[1].startswith("job 0 (atp, ")
    assert said[-1] == "the best there is: all choices that differ were simulated, 3"
    assert "programmable: none, no switch is of use" in text(asked, answer(asked, 0))


def test_switches_above_the_tors_if_they_may_be_chosen(tmp_path):
    asked = experiment(tmp_path, fabric__ina_tier="any", jobs__0__system="netreduce")
    assert set(answer(asked, 1).switches) < {"t0", "t1", "s0", "s1"}


def test_one_set_of_jobs_at_a_time(tmp_path):
    asked = experiment(tmp_path, sweep={"jobs.0.workers": [3, 4]})
    with pytest.raises(DeploymentError, match="found 2 cells, wanted one"):
        answer(asked, 1)


def test_jobs_that_cannot_run(tmp_path):
    asked = experiment(tmp_path, jobs__0__colocated=True)
    with pytest.raises(DeploymentError, match="cannot run"):
        answer(asked, 2)
