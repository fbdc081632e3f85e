"""Rows of different back ends are matched; errors are relative to valid rows of the emulator."""

from __future__ import annotations

import json
from dataclasses import replace

import pandas as pd
import pytest

from testbed.experiment.schema import Experiment
from testbed.results import Row
from testbed.studies.ladder import is_met, ladder, strained_cells, text


def row(backend, jct_s, repeat=0, system="ring", verdict="valid", rate="10Gbit", loss=0):
    settings = {
        "backend": backend,
        "jobs.0.system": system,
        "fabric.fabric_rate": rate,
        "emulation.loss": loss,
    }
    return Row(
        experiment="ladder", cell=f"{backend}-{system}-{rate}", repeat=repeat, job=0, system=system,
        workload="resnet50", topology="leaf-spine 2x5", workers=8, servers=0, ina_tors=2, tors=2,
        backend=backend, switch_target="", dilation=1.0, scale=1.0, iterations=2, jct_s=jct_s,
        expected_jct_s=1.8, verdict=verdict, verified=True, settings=json.dumps(settings),
    )  # fmt: skip


ROWS = [
    row("simulate", 1.9),
    row("emulate", 2.0),
    row("emulate", 2.2, repeat=1),
    row("emulate", 9.0, repeat=2, verdict="the machine was busy"),
    row("simulate", 3.0, rate="5Gbit"),
    row("emulate", 3.0, rate="5Gbit", verdict="the machine was busy"),
    row("emulate", 4.0, system="ps"),
    row("emulate", None, system="atp", verdict="failed"),
]


def laddered(rows, **more):
    return ladder(pd.DataFrame(rows).assign(run="one"), **more)


def test_four_ways_side_by_side():
    made = laddered(ROWS)
    assert made["system"].tolist() == ["ps", "ring", "ring"]
    by = {(each.system, each.varied): each for each in made.itertuples()}
    ring = by["ring", "loss=0, fabric_rate=10Gbit"]
    assert (ring.closed_form, ring.simulator, ring.emulator) == pytest.approx((0.9, 0.95, 1.05))
    assert ring.simulator_error == pytest.approx(0.95 / 1.05 - 1) and ring.is_valid
    assert ring.closed_form_error == pytest.approx(0.9 / 1.05 - 1)
    doubtful = by["ring", "loss=0, fabric_rate=5Gbit"]
    assert doubtful.emulator == pytest.approx(1.5) and not doubtful.is_valid
    assert pd.isna(by["ps", "loss=0, fabric_rate=10Gbit"].simulator)


def two_jobs(backend, *times, workers=(8, 8)):
    return [
        replace(row(backend, jct_s), job=job, workers=workers[job])
        for job, jct_s in enumerate(times)
    ]


def test_jobs_that_are_alike_match_in_the_order_of_their_times():
    made = laddered([*two_jobs("packet", 2.0, 3.1), *two_jobs("emulate", 3.0, 2.0)])
    assert made["packets_error"].tolist() == pytest.approx([0, 3.1 / 3.0 - 1])


def test_jobs_of_different_runs_are_not_mixed():
    one, other = two_jobs("emulate", 1.0, 2.0), two_jobs("emulate", 3.0, 4.0)
    rows = pd.DataFrame([*two_jobs("packet", 2.0, 3.0), *one, *other])
    made = ladder(rows.assign(run=["one"] * 4 + ["other"] * 2))
    assert made["emulator"].tolist() == [1.0, 1.5]
    assert made["packets_error"].tolist() == pytest.approx([0, 0])


def test_a_verdict_stays_with_its_job():
    slow, fast = two_jobs("emulate", 3.0, 2.0)
    rows = [*two_jobs("packet", 2.0, 3.1), replace(slow, verdict="busy"), fast]
    assert laddered(rows)["is_valid"].tolist() == [True, False]


def test_jobs_of_different_sizes_match_by_number():
    runs = (("packet", 2.0, 3.1), ("emulate", 3.0, 2.0))
    made = laddered([job for run in runs for job in two_jobs(*run, workers=(8, 9))])
    assert made["packets_error"].tolist() == pytest.approx([2.0 / 3.0 - 1, 3.1 / 2.0 - 1])


def test_the_text_says_how_far_off_they_are():
    lines = text(laddered(ROWS)).splitlines()
    assert "        -" in lines[1] and "?" not in lines[1]
    assert "1.5000 s?" in lines[3]
    assert "simulator against emulator, 1 valid row: median 9.5%, worst 9.5%" in lines
    assert "simulator against emulator, 1 doubtful row (?): median 0.0%, worst 0.0%" in lines
    assert lines[-1].startswith(
        "ladder: MISSED (simulator) on 1 of 3 rows (the valid ones); wanted"
    )


@pytest.mark.parametrize(
    "backend, errors, met",
    [
        ("simulate", [0.01, -0.04, 0.09], True),
        ("simulate", [0.01, -0.06, 0.06], False),
        ("simulate", [0.01, 0.02, 0.11], False),
        ("packet", [0.01, -0.02, 0.07], True),
        ("packet", [0.01, -0.02, 0.09], False),
    ],
)
def test_the_target(backend, errors, met):
    rows = [
        row(each, 2.0 if each == "emulate" else 2.0 * (1 + error), system=f"s{number}")
        for number, error in enumerate(errors)
        for each in (backend, "emulate")
    ]
    assert is_met(laddered(rows)) is met


def test_without_a_valid_row_nothing_is_decided():
    made = laddered([row("simulate", 2.0), row("emulate", 2.0, verdict="busy")])
    assert not is_met(made)
    assert "UNDECIDED" in text(made).splitlines()[-1]


@pytest.mark.parametrize(
    "bad",
    [
        row("packet", None, verdict="failed"),
        row("packet", 2.0, verdict="packets retransmitted, though none was lost"),
        replace(row("packet", 2.0), verified=False),
    ],
)
def test_a_rung_that_failed_does_not_meet_its_bounds(bad):
    made = laddered([row("simulate", 2.0), row("emulate", 2.0), bad])
    assert not is_met(made)
    assert "MISSED (packets failed in 1 row)" in text(made).splitlines()[-1]


@pytest.mark.parametrize(
    ("packets", "loss", "said"),
    [
        (1.02, 0, "MET on 1 of 1"),
        (1.04, 0, "MISSED (packets)"),
        (1.04, 0.01, "MET on 1 of 1"),
        (0.85, 0.01, "MISSED (packets with loss or few slots)"),
    ],
)
def test_packets_have_bounds_of_their_own(packets, loss, said):
    """The simulator does not model loss: if there is any, its error does not count."""
    simulated = 1.0 if not loss else 0.5
    rows = [row("simulate", simulated, loss=loss), row("packet", packets, loss=loss)]
    rows.append(row("emulate", 1.0, loss=loss))
    made = laddered(rows, strained={each.cell for each in rows if loss})
    assert made["packets_error"].item() == pytest.approx(packets - 1)
    assert text(made).splitlines()[-1].startswith(f"ladder: {said}")
    assert is_met(made) is said.startswith("MET")


@pytest.mark.parametrize(
    ("emulation", "slots", "sweep", "count"),
    [
        ({}, 4096, {}, 0),
        ({"loss": 0.01}, 4096, {}, 1),
        ({"duplication": {"hosts": 0.01}}, 4096, {}, 1),
        ({}, 64, {}, 1),
        ({}, 4096, {"emulation.loss": [0, 0.01]}, 1),
        ({"loss": 0.01}, 4096, {"fabric.slots": [64, 4096]}, 2),
        ({"loss": 0.01}, 4096, {"emulation.loss": [0]}, 0),
    ],
)
def test_cells_are_strained_wherever_the_file_says_so(emulation, slots, sweep, count):
    experiment = Experiment.model_validate(
        {
            "schema_version": 1,
            "name": "strained",
            "fabric": {"kind": "leaf-spine", "spines": 1, "leaves": 2, "hosts_per_leaf": 2,
                       "host_rate": "10Gbit", "ina": "all", "slots": slots},
            "jobs": [{"system": "atp", "workload": "resnet50", "workers": 2}],
            "emulation": {"timers": "dilated", **emulation},
            "sweep": sweep,
        }
    )  # fmt: skip
    assert len({*strained_cells(experiment)}) == count
