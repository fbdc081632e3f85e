"""Rows of the two back ends find one another, and errors are against the emulator's valid ones."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from testbed.results import Row, RunDirectory
from testbed.simulation.ladder import ladder, main, text


def row(backend, jct_s, repeat=0, system="ring", verdict="valid", rate="10Gbit"):
    settings = {"backend": backend, "jobs.0.system": system, "fabric.fabric_rate": rate}
    return Row(
        experiment="ladder", cell=f"{backend}-{system}-{rate}", repeat=repeat, job=0, system=system,
        workload="resnet50", topology="leaf-spine 2x5", workers=8, servers=0, ina_tors=2, tors=2,
        backend=backend, switch_target="", dilation=1.0, scale=1.0, iterations=2, jct_s=jct_s,
        expected_jct_s=1.8, verdict=verdict, settings=json.dumps(settings),
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


def test_three_ways_side_by_side():
    made = ladder(pd.DataFrame(ROWS))
    assert made["system"].tolist() == ["ps", "ring", "ring"]
    by = {(each.system, each.varied): each for each in made.itertuples()}
    ring = by["ring", "fabric_rate=10Gbit"]
    assert (ring.closed_form, ring.simulator, ring.emulator) == pytest.approx((0.9, 0.95, 1.05))
    assert ring.simulator_error == pytest.approx(0.95 / 1.05 - 1)
    assert ring.closed_form_error == pytest.approx(0.9 / 1.05 - 1)
    assert pd.isna(by["ring", "fabric_rate=5Gbit"].emulator)
    assert pd.isna(by["ps", "fabric_rate=10Gbit"].simulator)


def test_the_text_says_how_far_off_they_are():
    lines = text(ladder(pd.DataFrame(ROWS))).splitlines()
    assert len(lines) == 1 + 3 + 2
    assert lines[-1] == "simulator against emulator, 1 rows: median 9.5%, worst 9.5%"
    assert "        -" in lines[1] and "+" not in lines[-1]


def test_of_runs_on_disk(tmp_path, capsys):
    RunDirectory.create(tmp_path, "ladder").append(ROWS)
    main([str(tmp_path)])
    assert "-9.5%" in capsys.readouterr().out
