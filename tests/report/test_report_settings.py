"""Only rows with the same settings are grouped together, and labels say what differs."""

from __future__ import annotations

import copy
import json
import shutil
from dataclasses import replace

import pandas as pd
import pytest
from made_up import EXPERIMENT, STYLES, labelled, rows, run

from testbed import run_tables
from testbed.experiment.schema import Compute, Emulation, Job, Training
from testbed.report import again, data, runs, settings


def swept(path: str, value: object) -> dict[str, str]:
    return {"settings": json.dumps({path: value})}


def test_what_does_not_differ_is_in_no_label(tmp_path):
    table = labelled(tmp_path, rows("ps", 1.0, 2.0) + rows("ring", 1.0))
    assert table[["conditions", "variant", "beside", "ina_policy"]].eq("").all(axis=None)
    assert set(table["fabric"]) == {"leaf-spine 2x5, 2 spines"}
    assert set(table["ina"]) == {"2/2 ToRs"}


def test_an_option_makes_variants_of_all_of_a_systems_rows(tmp_path):
    path = "jobs.0.options"
    table = labelled(
        tmp_path,
        rows("grid", 1.0, cell="a", **swept(path, {"strategy": "grid"}))
        + rows("grid", 1.0, cell="b", **swept(path, {"strategy": "nearest"}))
        + rows("grid", 1.0, cell="c", ina_tors=0, **swept(path, {"strategy": "grid"}))
        + rows("ring", 1.0),
    )
    assert table["variant"].tolist() == ["strategy=grid", "strategy=nearest", "strategy=grid", ""]


def test_an_option_that_is_not_set_is_its_default(tmp_path):
    table = labelled(
        tmp_path,
        rows("grid", 1.0, cell="a", **swept("jobs.0.options", {}))
        + rows("grid", 1.0, cell="b", **swept("jobs.0.options", {"solver": "milp"})),
    )
    assert table["variant"].tolist() == ["solver=default", "solver=milp"]


def test_a_jobs_field_is_a_condition_and_a_fabrics_field_its_name(tmp_path):
    table = labelled(
        tmp_path,
        rows("ps", 1.0, cell="a", **swept("jobs.0.overlap", True))
        + rows("ps", 1.0, cell="b", **swept("jobs.0.overlap", False))
        + rows("ps", 1.0, cell="c", workload="bert-base", **swept("jobs.0.overlap", False))
        + rows("ps", 1.0, cell="d", topology="other", **swept("fabric.host_rate", "10Gbit"))
        + rows("ps", 1.0, cell="e", topology="other", **swept("fabric.host_rate", "25Gbit")),
    )
    assert table["conditions"].tolist() == ["overlap=true", "overlap=false", "", "", ""]
    assert table["fabric"].tolist()[3:] == ["other, host_rate=10Gbit", "other, host_rate=25Gbit"]


def test_a_field_that_another_one_decides_is_in_no_label(tmp_path):
    slow = {"fabric.host_rate": "10Gbit", "fabric.queue": "512KB"}
    fast = {"fabric.host_rate": "100Gbit", "fabric.queue": "2MB"}
    table = labelled(
        tmp_path,
        rows("ps", 1.0, cell="a", settings=json.dumps(slow))
        + rows("ps", 1.0, cell="b", settings=json.dumps(fast)),
    )
    shared = "leaf-spine 2x5, 2 spines"
    assert table["fabric"].tolist() == [
        f"{shared}, host_rate=10Gbit",
        f"{shared}, host_rate=100Gbit",
    ]
    table = labelled(
        tmp_path / "both",
        rows("ps", 1.0, cell="a", settings=json.dumps(slow))
        + rows("ps", 1.0, cell="b", settings=json.dumps({**slow, "fabric.queue": "2MB"}))
        + rows("ps", 1.0, cell="c", settings=json.dumps(fast)),
    )
    assert table["fabric"].tolist() == [
        f"{shared}, host_rate=10Gbit, queue=512KB",
        f"{shared}, host_rate=10Gbit, queue=2MB",
        f"{shared}, host_rate=100Gbit",
    ]


def test_seeds_are_repeats_and_dilations_are_not(tmp_path):
    table = labelled(
        tmp_path,
        rows("ps", 1.0, cell="a", **swept("emulation.seed", 1))
        + rows("ps", 1.0, cell="b", **swept("emulation.seed", 2))
        + rows("ring", 1.0, cell="c", **swept("emulation.dilation", 200))
        + rows("ring", 1.0, cell="d", **swept("emulation.dilation", 400)),
    )
    assert table["variant"].tolist() == ["", "", "dilation=200", "dilation=400"]


def test_switches_with_ina_above_the_tors_are_another_place(tmp_path):
    table = labelled(
        tmp_path,
        rows("atp", 1.0, cell="a", ina_tors=2)
        + rows("atp", 1.0, cell="b", ina_tors=1, ina_switches=2, **swept("fabric.ina", 2)),
    )
    assert table["ina"].tolist() == ["2/2 ToRs", "2/4 switches"]


def test_how_ina_tors_were_chosen_is_said_where_it_differs(tmp_path):
    some = {"ina_tors": 1, "ina_switches": 1}
    policy = {"fabric.ina": 1, "fabric.ina_policy": "random"}
    table = labelled(
        tmp_path,
        rows("atp", 1.0, cell="a", **some, **swept("fabric.ina", 1))
        + rows("atp", 1.0, cell="b", **some, settings=json.dumps(policy))
        + rows("atp", 1.0, cell="c", **some, **swept("fabric.ina", ["t1"]))
        + rows("atp", 1.0, cell="d", ina_tors=2),
    )
    assert table["ina"].tolist() == [
        "1/2 ToRs, fullest", "1/2 ToRs, random", "1/2 ToRs, t1", "2/2 ToRs",
    ]  # fmt: skip


def test_jobs_of_one_cell_know_their_company(tmp_path):
    together = rows("ps", 1.0, cell="x", job=0) + rows("atp", 1.0, cell="x", job=1)
    table = labelled(tmp_path, together + rows("ps", 1.0, cell="y"))
    assert table["beside"].tolist() == ["atp resnet50", "ps resnet50", ""]


def test_cells_of_an_older_run_are_kept_apart(tmp_path):
    old = copy.deepcopy(EXPERIMENT) | {"sweep": {"product": {"jobs.0.overlap": [True, False]}}}
    table = labelled(tmp_path, rows("ps", 1.0, cell="a") + rows("ps", 1.0, cell="b"), old)
    assert table["variant"].tolist() == ["cell a", "cell b"]


def test_runs_of_different_experiments(tmp_path):
    other = copy.deepcopy(EXPERIMENT)
    other["jobs"][0]["overlap"] = False
    found = {}
    for name, content in (("one", EXPERIMENT), ("two", other)):
        found[str(run(tmp_path, rows("ps", 1.0, cell=name), name, content))] = content
    table = settings.label(run_tables.read(tmp_path).results, found)
    assert sorted(table["conditions"]) == ["overlap=false", "overlap=true"]


@pytest.mark.parametrize("experiment", [{}, {"jobs": None, "fabric": "?"}])
def test_an_experiment_that_says_nothing(tmp_path, experiment):
    table = labelled(tmp_path, rows("ps", 1.0), experiment)
    assert table["system"].tolist() == ["ps"]


SHOWN_ELSEWHERE = {"system", "workload", "workers", "servers", "iterations", "start"}
"""By columns of their own, or without effect on a job that is alone."""
FIELDS = [
    *(f"jobs.0.{name}" for name in Job.model_fields if name not in SHOWN_ELSEWHERE),
    *(f"emulation.{name}" for name in Emulation.model_fields if name not in ("repeats", "seed")),
    *(f"jobs.0.training.{name}" for name in Training.model_fields),
    *(f"jobs.0.compute.{name}" for name in Compute.model_fields),
]


@pytest.mark.parametrize("path", FIELDS)
def test_no_swept_field_is_averaged_away(tmp_path, path):
    table = labelled(
        tmp_path,
        rows("ps", 1.0, cell="a", backend="packet", **swept(path, [1]))
        + rows("ps", 3.0, cell="b", backend="packet", **swept(path, [2])),
    )
    assert data.summary(table, STYLES)["jct_s"].tolist() == [1.0, 3.0]


def test_jobs_on_other_hosts_are_another_condition(tmp_path):
    table = labelled(
        tmp_path,
        rows("ps", 1.0, cell="a", **swept("jobs.0.workers", ["h0", "h1"]))
        + rows("ps", 1.0, cell="b", **swept("jobs.0.workers", ["h0", "h2"])),
    )
    assert table["conditions"].tolist() == ['hosts=["h0", "h1"]', 'hosts=["h0", "h2"]']


def test_servers_on_other_hosts_make_variants(tmp_path):
    table = labelled(
        tmp_path,
        rows("ps", 1.0, cell="a", **swept("jobs.0.servers", ["h8"]))
        + rows("ps", 1.0, cell="b", **swept("jobs.0.servers", ["h9"]))
        + rows("ps", 1.0, cell="c", servers=2, **swept("jobs.0.servers", ["h8", "h9"])),
    )
    assert table["variant"].nunique() == 3
    assert table["variant"][0] == 'servers=1, server_hosts=["h8"]'


def test_a_field_that_a_file_leaves_out_has_its_default(tmp_path):
    table = labelled(
        tmp_path,
        rows("ps", 1.0, cell="a") + rows("ps", 1.0, cell="b", **swept("jobs.0.density", 1.0)),
    )
    assert table["conditions"].eq("").all()


@pytest.mark.parametrize("without", [{}, swept("jobs.0.compute", None)])
def test_a_job_without_compute_has_the_defaults_of_its_fields(tmp_path, without):
    uneven = {"factor": 1.0, "jitter": 0.3}  # as experiment.yaml has it
    table = labelled(
        tmp_path,
        rows("ps", 1.0, cell="a", **without)
        + rows("ps", 1.0, cell="b", **swept("jobs.0.compute", uneven))
        + rows("ps", 1.0, cell="c", **swept("jobs.0.compute.factor", 2)),
    )
    assert table["conditions"].tolist() == [
        "factor=1, jitter=0",
        "factor=1, jitter=0.3",
        "factor=2",
    ]


def test_a_job_that_does_not_train_has_no_learning_rate(tmp_path):
    table = labelled(
        tmp_path,
        rows("ps", 1.0, cell="a")
        + rows("ps", 1.0, cell="b", **swept("jobs.0.training", {"rate": 0.05})),
    )
    assert table["conditions"].tolist() == ["training.rate=none", "training.rate=0.05"]


def test_nested_fields_have_their_parents_names(tmp_path):
    slow = {"workers": 1, "slowdown": 4}
    table = labelled(
        tmp_path,
        rows("ps", 1.0, cell="a", **swept("jobs.0.compute", {"stragglers": slow}))
        + rows("ps", 1.0, cell="b", **swept("jobs.0.compute", {"factor": 0.5})),
    )
    assert table["conditions"][0].startswith("stragglers.workers=1")


def test_jobs_side_by_side_say_what_was_swept_in_any_of_them(tmp_path):
    def both(cell, start):
        return [
            *rows("ps", 1.0, cell=cell, job=0, **swept("jobs.1.start", start)),
            *rows("ring", 1.0, cell=cell, job=1, **swept("jobs.1.start", start)),
        ]

    two = EXPERIMENT | {"jobs": EXPERIMENT["jobs"] + [EXPERIMENT["jobs"][0] | {"system": "ring"}]}
    own = both("a", "0s") + both("b", "10s") + rows("ps", 1.0, cell="c")
    table = labelled(tmp_path, own, two)
    assert table["others"].tolist() == ["job 1 start=0s"] * 2 + ["job 1 start=10s"] * 2 + [""]
    assert table["conditions"].eq("").all()


def run_on(root, day, all_rows, name="made-up"):
    """The directory of a run that began on this day."""
    directory = run(root, all_rows, name, EXPERIMENT)
    began = {"started_at": f"2026-01-0{day}T00:00:00Z"}
    (directory / "run.json").write_text(json.dumps(began))
    return directory


def latest(directories):
    about = {str(each): runs.read(each) for each in directories}
    return again.latest(run_tables.read(directories).results, about)


@pytest.mark.parametrize("backend", ["emulate", "packet"])
def test_a_copy_of_a_run_gives_no_other_samples(tmp_path, backend):
    ring = rows("ring", 1.0, 2.0, 3.0, backend=backend, started_at="then")
    failed = rows("ps", 1.0, backend=backend, error="no memory", started_at="then")
    failed = [replace(row, jct_s=None, verified=None) for row in failed]
    one = run_on(tmp_path, 2, ring + failed)
    whole = tmp_path / "a copy"
    shutil.copytree(one, whole)
    # Copied before the run was resumed
    part = run_on(tmp_path / "b", 1, ring[:2])
    wanted = latest([one]).drop(columns="run")
    for several in ([one, whole], [whole, one], [one, part], [part, one, whole]):
        found = latest(several)
        assert found["run"].nunique() == 1
        found = found.drop(columns="run").reset_index(drop=True)
        pd.testing.assert_frame_equal(found, wanted)


def test_a_later_run_replaces_rows_of_the_same_cell(tmp_path):
    """In virtual time the same repeat counts once. Rows of other code do not count."""

    def ran(name, day, **fields):
        return run_on(tmp_path, day, rows("ps", 1.0, 2.0, **fields), name)

    # Rows in virtual time have no time of their own, and names tell nothing.
    virtual = [
        ran("first", 3, version="new", backend="packet"),
        ran("second", 2, version="new", backend="packet"),
        ran("third", 1, version="old", backend="packet"),
    ]
    found = latest(virtual)
    assert set(found["run"]) == {str(virtual[0])} and len(found) == 2
    real = [ran(f"e{day}", day, version="new", started_at=f"day {day}") for day in (1, 2)]
    assert len(latest(real)) == 4
    real.append(ran("changed", 3, version="newer"))
    assert set(latest(real)["run"]) == {str(real[-1])}


def test_a_resumed_run_is_as_new_as_its_latest_session(tmp_path):
    directory = run(tmp_path, rows("ps", 1.0))
    sessions = [{"started_at": "2026-01-03T00:00:00Z"}, {"started_at": 5}, None]
    facts = {"started_at": "2026-01-01T00:00:00Z", "resumed": sessions}
    (directory / "run.json").write_text(json.dumps(facts))
    assert runs.read(directory).started == "2026-01-03T00:00:00Z"


def test_each_of_many_long_values_has_a_name_of_its_own(tmp_path):
    long = [{"factor": 1 + each, "forward": 0.5, "backward": 0.25} for each in range(28)]
    cells = [
        row
        for at, value in enumerate(long)
        for row in rows("ring", 1.0, cell=f"c{at}", **swept("jobs.0.options", {"a": str(value)}))
    ]
    assert labelled(tmp_path, cells)["variant"].nunique() == 28
