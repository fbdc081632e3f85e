"""The figure of JCT against the field that an experiment varies."""

from __future__ import annotations

import json

import made_up
import pytest
from matplotlib import pyplot as plt

from testbed.backends.recording import NOTHING
from testbed.campaign.evaluation import New
from testbed.campaign.local import Local
from testbed.deployment.experiments import reads
from testbed.report import factors, swept
from testbed.report.evaluated import evaluated
from testbed.studies import reporting

TEXT = """\
schema_version: 1
name: varied
backend: simulate
fabric: {{kind: leaf-spine, spines: 1, leaves: 2, hosts_per_leaf: 5, host_rate: 10Gbit, ina: all}}
jobs: [{{system: ring, workload: synthetic/1MB, workers: 4, iterations: 1}}]
emulation: {{repeats: 3}}
sweep:
  jobs.0.system: [{systems}]
  {varied}
"""


def run(tmp_path, varied, systems="ring, atp"):
    path, failed = New(reads(TEXT.format(varied=varied, systems=systems)), tmp_path).run(
        NOTHING, Local(), quiet=True
    )
    assert not failed
    return path


@pytest.mark.parametrize(
    ("varied", "factor", "values"),
    [
        ("fabric.slots: [4096, 64, 512]", "slots", ("64", "512", "4096")),
        ("fabric.host_rate: [40Gbit, 10Gbit]", "host rate", ("40Gbit", "10Gbit")),
        ("jobs.0.compute.factor: [1, 0.5]", "factor", ("0.5", "1")),
    ],
)
def test_a_line_for_each_system_over_the_values(tmp_path, varied, factor, values):
    found = evaluated([run(tmp_path, varied)], reporting.styles())
    (field,) = swept.fields(found)
    assert (field.factor, field.values) == (factor, values)
    ((title, rows),) = field.panels
    assert "INA at 2/2 ToRs" in title
    assert sorted(zip(rows["system"], rows["at"], strict=True)) == sorted(
        (system, at) for system in ("ring", "atp") for at in range(len(values))
    )
    assert (rows["used_rows"] == 3).all()
    figure = swept.drawn(field, found.series)
    plt.close(figure)
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_xticklabels()] == list(values)


@pytest.mark.parametrize(
    "varied", ["fabric.ina: [none, all]", "fabric.slots: [64, 512]\n  fabric.queue: [1MB, 2MB]"]
)
def test_no_figure_if_not_one_field_varies(tmp_path, varied):
    assert not list(swept.fields(evaluated([run(tmp_path, varied)], reporting.styles())))


def test_the_report_has_the_figure(tmp_path):
    path = run(tmp_path, "fabric.slots: [64, 512]")
    page = reporting.report([path], path)
    assert "Job completion time against a swept field" in page.read_text()
    assert (path / "figures/swept-1.svg").exists()


def test_back_ends_are_not_averaged(tmp_path):
    varied = "backend: [simulate, packet]\n  fabric.step_latency: [0us, 5us]"
    (field,) = swept.fields(evaluated([run(tmp_path, varied)], reporting.styles()))
    titles = [title for title, _ in field.panels]
    assert len(titles) == 2 and sum("(packets)" in title for title in titles) == 1
    assert all((rows["used_rows"] == 3).all() for _, rows in field.panels)


def test_a_system_without_aggregation_counts_once_beside_each_place(tmp_path):
    path = run(tmp_path, "fabric.ina: [1, all]\n  fabric.slots: [64, 512]")
    (field,) = swept.fields(evaluated([path], reporting.styles()))
    assert [set(rows["used_rows"]) for _, rows in field.panels] == [{3}, {3}]
    own = factors.study(path, reporting.styles()).rankings
    assert [len(row["times"]) for each in own for row in (each.best, each.next.slower)] == [3] * 8


def test_places_that_are_the_same_are_one_place_of_a_study(tmp_path):
    path = run(tmp_path, "fabric.ina: [0.3, 0.5]\n  fabric.slots: [64, 512]")
    own = factors.study(path, reporting.styles()).rankings
    assert [len(each.best["times"]) for each in own] == [3, 3]


def test_a_study_ranks_only_systems_whose_workers_wait(tmp_path):
    path = run(tmp_path, "fabric.slots: [64, 512]", "ring, atp, asp")
    for each in factors.study(path, reporting.styles()).rankings:
        assert {each.best["system"], each.next.slower["system"]} == {"ring", "atp"}
        assert len(each.behind) == 1


def test_a_cell_that_is_the_same_run_is_no_other_sample(tmp_path):
    found = evaluated([run(tmp_path, "fabric.ina: [0.3, 0.5]")], reporting.styles())
    assert set(found.means["used_rows"]) == {3} and found.replaced == 6


def made_up_study(root, *parts):
    """A study of loss from ``parts``: system, loss, times and changes of rows."""
    rows = [
        row
        for system, loss, times, changes in parts
        for row in made_up.rows(
            system, *times, cell=f"{system}-{loss}", backend="packet",
            settings=json.dumps({"jobs.0.system": system, "emulation.loss": loss}), **changes,
        )
    ]  # fmt: skip
    sweep = {"product": {"jobs.0.system": ["ring", "atp"], "emulation.loss": [0, 0.1]}}
    path = made_up.run(root, rows, experiment=made_up.EXPERIMENT | {"sweep": sweep})
    return factors.study(path, made_up.STYLES)


def test_rows_without_plans_do_not_have_the_same_plan(tmp_path):
    study = made_up_study(tmp_path, ("ring", 0, [3.0] * 5, {}), ("atp", 0, [1.0] * 5, {}))
    _, ((_, _, fastest, _, following, *_),) = factors.table(study, made_up.STYLES)
    assert (fastest, following) == ("ATP", "Ring")


def test_a_study_names_values_without_a_valid_row(tmp_path):
    study = made_up_study(
        tmp_path, ("ring", 0, [3.0] * 5, {}), ("ring", 0.1, [9.0] * 5, {"verdict": "busy"})
    )
    (said,) = factors.flips(study, made_up.STYLES)
    assert said.endswith("at every value; no system has a valid row at 0.1.")
