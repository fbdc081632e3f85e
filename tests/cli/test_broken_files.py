"""Files that a verb cannot use are a mistake of the user: code 2, and the place."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys

import made_up
import pandas as pd
import pytest
import tiny
import yaml
from verbs import invoke

import testbed
from testbed.results import CELLS, EXPERIMENT, LINKS, METADATA, RESULTS
from testbed.studies.baseline import COLUMNS
from testbed.systems import registry


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("", "series.csv: found no row below the heading"),
        ("0,queue_bytes,h0>t0,5\n0.1,queue_bytes,h0>t0,much\n", "series.csv:3: found no number"),
        ("0,queue_bytes,h0>t0,5\nsoon,queue_bytes,h0>t0,1\n", "series.csv:3: found no number"),
        ("0,foo,h0>t0,1\n", "series.csv:2: found quantity foo at h0>t0, wanted one of queue_bytes"),
        ("0,queue_bytes,,1\n", "series.csv:2: found quantity queue_bytes at nan"),
        ("1,2,3,4\n1,2,3,4,5\n", "series.csv: found no table that `run --series` wrote, wanted"),
        ("0,queue_bytes,h0>t0,1e308\n", "found a number above 1e+100"),
    ],
)
def test_a_series_that_cannot_be_drawn(tmp_path, rows, said):
    path = tmp_path / "series.csv"
    path.write_text(f"time_s,quantity,place,value\n{rows}")
    done = invoke("series", path)
    assert done.exit_code == 2, done.output
    assert said in done.output


def test_a_report_of_links_without_a_number(tmp_path):
    directory = made_up.run(tmp_path, made_up.rows("ps", 4.0))
    table = pd.read_csv(directory / LINKS, dtype={"cell": str})
    table.assign(busy="").to_csv(directory / LINKS, index=False)
    done = invoke("report", directory, "-o", tmp_path / "out")
    assert done.exit_code == 2, done.output
    assert "found no number in busy" in done.output


@pytest.mark.parametrize("words", [["loop.json", "-o", "b.json"], ["run", "-o", "loop.json"]])
def test_a_link_to_itself(tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    made_up.run(tmp_path, made_up.rows("ps", 4.0)).rename("run")
    os.symlink("loop.json", "loop.json")
    done = invoke("baseline", *words)
    assert done.exit_code == 2, done.output
    assert "loop" in done.output
    assert os.path.islink("loop.json")


def simulated(tmp_path):
    """The directory of a tiny run."""
    file = tmp_path / "x.yaml"
    file.write_text(yaml.safe_dump(tiny.data(tmp_path, backend="simulate")))
    return tmp_path / testbed.run(file, tmp_path / "results").results.run[0]


def test_a_reference_of_a_run_without_rows(tmp_path):
    run = simulated(tmp_path)
    heading, *_ = (run / RESULTS).read_text().splitlines(keepends=True)
    (run / RESULTS).write_text(heading)
    done = invoke("reference", run, "-o", tmp_path / "kept")
    assert done.exit_code == 2, done.output
    assert f"{run}: found no row" in done.output
    assert not (tmp_path / "kept").exists()


@pytest.mark.parametrize("key", ["versions", "seeds"])
def test_a_report_of_a_run_with_odd_facts(tmp_path, key):
    directory = made_up.run(tmp_path, made_up.rows("ps", 4.0) + made_up.rows("ring", 3.0))
    path = directory / METADATA
    known = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(known | {key: 5}))
    (directory / EXPERIMENT).write_text("fabric: 5\n")
    done = invoke("report", directory, "-o", tmp_path / "out")
    assert done.exit_code == 0, done.output


def test_a_time_below_zero_is_refused(tmp_path):
    directory = made_up.run(tmp_path, made_up.rows("ps", 4.0) + made_up.rows("ring", 3.0))
    path = directory / RESULTS
    path.write_text(path.read_text().replace(",3.0,", ",-3.0,"))
    done = invoke("report", directory, "-o", tmp_path / "out")
    assert done.exit_code == 2, done.output
    assert "results.csv:3: found '-3.0' as jct_s, wanted a number from 0 on" in done.output


def test_a_report_names_systems_that_are_not_registered(tmp_path):
    directory = made_up.run(tmp_path, made_up.rows("mine", 4.0) + made_up.rows("ring", 3.0))
    done = invoke("report", directory, "-o", tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert "not registered here, so without title, colour and rules: mine;" in done.output


def test_a_run_named_by_two_paths_counts_once(tmp_path):
    directory = made_up.run(tmp_path, made_up.rows("ps", 4.0) + made_up.rows("ring", 3.0))
    another = directory / ".." / directory.name
    once = invoke("baseline", directory, "-o", tmp_path / "once.json")
    twice = invoke("baseline", directory, another, "-o", tmp_path / "twice.json")
    assert once.exit_code == twice.exit_code == 0, twice.output
    assert (tmp_path / "once.json").read_text() == (tmp_path / "twice.json").read_text()


def refuse_changed_baseline(tmp_path, change):
    """A baseline counts as none if ``change`` of its first run makes it another."""
    directory = made_up.run(tmp_path, made_up.rows("ps", 4.0) + made_up.rows("ring", 3.0))
    path = tmp_path / "base.json"
    assert invoke("baseline", directory, "-o", path).exit_code == 0
    assert invoke("compare", path, directory).exit_code == 0
    content = json.loads(path.read_text())
    change(content["runs"][0])
    path.write_text(json.dumps(content))
    done = invoke("compare", path, directory)
    assert done.exit_code == 2, done.output
    assert "base.json: found no stored baseline" in done.output


@pytest.mark.parametrize("row", [[], [None] * len(COLUMNS)], ids=["cut", "empty"])
def test_a_baseline_with_a_broken_row(tmp_path, row):
    refuse_changed_baseline(tmp_path, lambda run: run.update(rows=[run["rows"][0], row]))


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("jct_s", "x"), ("expected_jct_s", "x"), ("repeat", "x"), ("tors", "x"), ("workers", [4]),
        ("ina_switches", {}), ("settings", ""), ("settings", "x"), ("settings", "[]"),
    ],
)  # fmt: skip
def test_a_baseline_with_a_wrong_field(tmp_path, column, value):
    def change(run):
        run["rows"][1][COLUMNS.index(column)] = value

    refuse_changed_baseline(tmp_path, change)


@pytest.mark.parametrize("part", ["experiment", "facts"])
def test_a_baseline_with_a_list_for_a_mapping(tmp_path, part):
    refuse_changed_baseline(tmp_path, lambda run: run.update({part: [1]}))


def test_a_baseline_with_a_wrong_record(tmp_path):
    record = ["c0", 0, 0, [[0, 0, 1.0]], []]  # links are a mapping
    refuse_changed_baseline(tmp_path, lambda run: run.update(records=[record]))


@pytest.mark.parametrize("verb", ["run --dry-run --resume", "ladder"])
def test_a_run_with_a_wrong_value_in_its_sweep(verb, tmp_path):
    content = yaml.safe_load(yaml.safe_dump(made_up.EXPERIMENT))
    tiny_one = tiny.data(tmp_path, backend="simulate", sweep={"jobs.0.system": [1, "ring"]})
    directory = made_up.run(tmp_path, made_up.rows("ps", 4.0), experiment=content | tiny_one)
    done = invoke(*verb.split(), directory)
    assert done.exit_code == 2, done.output
    assert "jobs.0.system.0: found 1, wanted the name of a system" in done.output


@pytest.mark.parametrize("facts", ["", '{"seed', "garbage", "[]"])
def test_damaged_facts_are_not_explained(facts, tmp_path):
    run = simulated(tmp_path)
    (run / METADATA).write_text(facts)
    before = {*run.rglob("*")}
    done = invoke("explain", run)
    assert done.exit_code == 2, done.output
    assert f"{run / METADATA}: found no JSON" in done.output
    assert {*run.rglob("*")} == before


def test_a_ladder_of_a_run_with_damaged_facts(tmp_path):
    run = simulated(tmp_path)
    (run / METADATA).write_text("[]")
    done = invoke("ladder", run)
    assert done.exit_code == 2, done.output
    assert "run.json: found no JSON object" in done.output


def test_a_reference_of_a_run_in_it(tmp_path):
    directory = made_up.run(tmp_path, made_up.rows("ps", 4.0))
    file = tiny.data(tmp_path, backend="simulate") | {"name": "kept"}
    (directory / EXPERIMENT).write_text(yaml.safe_dump(file))
    directory.rename(tmp_path / "kept")
    done = invoke("reference", tmp_path / "kept", "-o", tmp_path)
    assert done.exit_code == 2, done.output
    assert "kept in the reference itself, wanted a run to keep" in done.output


@pytest.mark.parametrize("verb", ["report DIR -o out", "compare DIR DIR", "baseline DIR -o b.json"])
def test_a_table_with_a_column_twice(verb, tmp_path):
    directory = made_up.run(tmp_path, made_up.rows("ps", 4.0))
    table = directory / RESULTS
    table.write_text(table.read_text().replace(",collisions", ",retransmitted", 1))
    done = invoke(*verb.replace("DIR", str(directory)).split())
    assert done.exit_code == 2, done.output
    assert "results.csv:1: found column retransmitted twice" in done.output.replace("\n", " ")


def no_plan(job, fabric):
    """As somebody writes it who has forgotten the last line."""


@pytest.mark.parametrize("plan", [no_plan, None], ids=["without return", "with an error"])
def test_a_system_whose_plan_fails_is_shown(monkeypatch, plan):
    if plan is None:
        monkeypatch.setattr("testbed.extensions.place_of", lambda error: "mine.py:7")
    ring = registry["ring"]
    broken = type(ring)(**{**vars(ring), "plan": plan})
    monkeypatch.setitem(registry, "ring", broken)
    done = invoke("systems", "ring")
    assert done.exit_code == 0, done.output
    assert "protocols: unknown, its plan fails" in done.output
    assert invoke("systems").exit_code == 0


@pytest.mark.parametrize(
    ("verb", "name"),
    [
        *((verb, RESULTS) for verb in ("report", "compare run", "baseline", "watch", "explain",
                                       "run x.yaml --resume", "ladder", "reference")),
        ("report", METADATA),
        ("report", "iterations.csv"),
    ],
)  # fmt: skip
def test_a_pipe_in_a_run_is_refused(verb, name, tmp_path):
    """To read it would wait for ever."""
    (tmp_path / "run").mkdir()
    if name != RESULTS:
        (tmp_path / "run" / RESULTS).touch()
    os.mkfifo(tmp_path / "run" / name)
    (tmp_path / "x.yaml").write_text("")
    done = subprocess.run(
        [sys.executable, "-m", "testbed.cli", *verb.split(), "run"],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert f"found a device or a pipe at run/{name}" in done.stderr.replace("\n", " ")


def changed(directory, column, value):
    """Set a column of the first row of a run's results."""
    path = directory / RESULTS
    heading, row, *others = list(csv.reader(path.read_text().splitlines()))
    row[heading.index(column)] = value
    with path.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([heading, row, *others])


@pytest.mark.parametrize("verb", ["report DIR -o out", "compare DIR DIR", "baseline DIR -o b.json"])
def test_rows_of_an_unknown_back_end(verb, tmp_path):
    directory = made_up.run(tmp_path, made_up.rows("ps", 4.0) + made_up.rows("ring", 3.0))
    changed(directory, "backend", "quantum")
    places = {"DIR": directory, "out": tmp_path / "out", "b.json": tmp_path / "b.json"}
    done = invoke(*(places.get(word, word) for word in verb.split()))
    assert done.exit_code == 2, done.output
    assert "found rows of the back end 'quantum', wanted simulate, packet, emulate" in done.output


@pytest.mark.parametrize("value", ["", "soon", "nan"])
def test_watch_of_a_valid_row_without_a_time(value, tmp_path):
    directory = made_up.run(tmp_path, made_up.rows("ps", 4.0))
    changed(directory, "jct_s", value)
    done = invoke("watch", directory, "--once")
    assert done.exit_code == 2, done.output
    assert f"{directory / RESULTS}:2: found " in done.output


@pytest.mark.parametrize("name", [RESULTS, CELLS])
def test_watch_of_a_binary_table(name, tmp_path):
    directory = made_up.run(tmp_path, made_up.rows("ps", 4.0))
    (directory / name).write_bytes(b"\xff" * 200_000 + b"\n\xff\n")
    done = invoke("watch", directory, "--once")
    assert done.exit_code == 2, done.output
    assert f"{directory / name}" in done.output
