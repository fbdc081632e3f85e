"""The best switches to make programmable for an experiment."""

from __future__ import annotations

import pytest
from tiny import experiment

from testbed.deployment.errors import DeploymentError
from testbed.placement.advice import advice
from testbed.placement.best import best_switches
from testbed.placement.fabric import build_fabric, without_ina

UNEVEN = {
    "fabric__leaves": 3,
    "fabric__spines": 1,
    "fabric__hosts_per_leaf": [2, 4, 2],
    "jobs__0__workers": 7,
}
"""Two workers under t0, four under t1, one and the server under t2."""


def placed(asked, budget):
    return best_switches(asked, without_ina(asked), budget)


def test_the_choice_for_an_experiment(tmp_path):
    asked = experiment(tmp_path, **UNEVEN)
    found = placed(asked, 1)
    assert found.is_exact and found.switches == ("t1",)
    assert found.with_all_s < found.jct_s < found.without_s


def test_switches_above_the_tors_if_they_may_be_chosen(tmp_path):
    asked = experiment(tmp_path, fabric__ina_tier="any", jobs__0__system="netreduce")
    assert set(placed(asked, 1).switches) < {"t0", "t1", "s0", "s1"}


def test_jobs_that_cannot_run(tmp_path):
    asked = experiment(tmp_path, jobs__0__colocated=True)
    with pytest.raises(DeploymentError, match="cannot run"):
        placed(asked, 2)


def test_the_advice_can_be_pasted(tmp_path):
    (said,) = advice(experiment(tmp_path, **UNEVEN), 1)
    head, job, exact, ina = said.splitlines()
    assert "speed-up" in head and job.split()[:2] == ["0", "atp"]
    assert exact == "exact: all different choices were compared (4 choices)"
    assert ina == "ina: [t1]"


def test_no_switch_helps_a_ring(tmp_path):
    (said,) = advice(experiment(tmp_path, jobs__0__system="ring"), 2)
    assert said.splitlines()[-2:] == [
        "no programmable switch makes these jobs faster",
        "ina: none",
    ]


def test_every_cell_of_a_sweep_but_for_the_choice_itself(tmp_path):
    sweep = {"jobs.0.workers": [3, 4], "fabric.ina": ["none", "all"], "backend": ["simulate"]}
    said = list(advice(experiment(tmp_path, sweep=sweep), 1))
    assert [text.splitlines()[0] for text in said] == ["jobs.0.workers: 3", "jobs.0.workers: 4"]


def test_several_jobs_are_weighed_together(tmp_path):
    job = {"workload": str(tmp_path / "tiny.trace"), "workers": 2, "iterations": 1}
    jobs = [{"system": "atp", **job}, {"system": "ring", **job}]
    (said,) = advice(experiment(tmp_path, jobs=jobs, fabric__hosts_per_leaf=[3, 3]), 1)
    assert said.splitlines()[3].split()[0] == "mean"


@pytest.mark.parametrize("ina", [1, 0.3])
def test_best_is_a_policy_of_a_fabric(ina, tmp_path):
    asked = experiment(tmp_path, **UNEVEN, fabric__ina=ina, fabric__ina_policy="best")
    assert build_fabric(asked).ina == {"t1"}


def test_the_best_for_the_jobs_is_not_always_the_fullest_rack(tmp_path):
    """The first rack has the most hosts, but no worker."""
    asked = experiment(
        tmp_path,
        fabric__hosts_per_leaf=[5, 4, 3],
        fabric__spines=1,
        fabric__leaves=3,
        fabric__ina=1,
        jobs__0__workers=["h5", "h6", "h7", "h9", "h10"],
        jobs__0__servers=["h11"],
    )
    assert build_fabric(asked).ina == {"t0"}
    best = asked.model_copy(
        update={"fabric": asked.fabric.model_copy(update={"ina_policy": "best"})}
    )
    assert build_fabric(best).ina == {"t1"}


def test_draws_of_random_placement_have_an_answer_each(tmp_path):
    changes = {"jobs__0__placement": "random", "sweep": {"emulation.seed": [1, 2]}}
    said = list(advice(experiment(tmp_path, **changes), 1))
    assert [text.splitlines()[0] for text in said] == ["emulation.seed: 1", "emulation.seed: 2"]
