"""The verb ``explain``: what it prints and writes, and what it refuses."""

from __future__ import annotations

import csv
from pathlib import Path

import pandas as pd
import pytest
from tiny import FRAGMENTS, experiment, file, trace_file
from verbs import invoke

import testbed
from testbed.deployment import experiments
from testbed.deployment.tables import tables
from testbed.experiment.cells import distinct
from testbed.placement.deployments import Deployments
from testbed.report import parts
from testbed.studies.explain import causes


def ring(folder, **changes):
    return file(folder, jobs__0__system="ring", **changes)


def test_it_writes_a_table_that_adds_up_and_a_figure(tmp_path):
    path = ring(tmp_path, backend="packet", emulation__loss=0.01)
    done = invoke("explain", path, "-o", tmp_path / "out")
    assert done.exit_code == 0, done.output
    (cell,) = distinct(experiments.read(path))
    found = testbed.run(path, tmp_path / "results").results
    with (tmp_path / f"out/explain-{cell.id}-0.csv").open() as table:
        total = sum(float(row["seconds"]) for row in csv.DictReader(table))
    assert total == pytest.approx(found.jct_s[0], rel=1e-9)
    assert (tmp_path / f"out/explain-{cell.id}-0.png").exists()


def test_a_run_that_cannot_be_written_to_is_explained_all_the_same(tmp_path):
    path = ring(tmp_path, backend="packet")
    (row,) = testbed.run(path, tmp_path / "results").results.itertuples()
    (Path(row.run) / f"explain-{row.cell}-0.csv").mkdir()  # not even root can write there
    done = invoke("explain", row.run)
    assert done.exit_code == 2
    assert done.stdout.startswith(row.cell) and "\ncompute: " in done.stdout
    assert "-0.csv: is a directory; -o DIRECTORY writes elsewhere" in done.stderr


def test_of_a_run_it_explains_the_slowest_cell(tmp_path):
    path = ring(tmp_path, backend="packet", sweep={"emulation.loss": [0.0, 0.05]})
    found = testbed.run(path, tmp_path / "results").results
    slowest = found.loc[(found.jct_s / found.expected_jct_s).idxmax()]
    done = invoke("explain", slowest.run)
    assert done.exit_code == 0, done.output
    assert done.output.startswith(slowest.cell)
    assert "\nloss: " in done.output
    other = found[found.cell != slowest.cell].iloc[0]
    assert invoke("explain", slowest.run, "--cell", other.cell[:6]).output.startswith(other.cell)


def test_a_row_that_the_code_no_longer_gives_is_told(tmp_path):
    path = ring(tmp_path, backend="packet", emulation__repeats=2, emulation__loss=0.01)
    (run,) = {*testbed.run(path, tmp_path / "results").results.run}
    assert invoke("explain", run).stderr == ""
    trace_file(tmp_path, 2 * FRAGMENTS)
    done = invoke("explain", run)
    assert done.exit_code == 0
    assert done.stderr.startswith("warning: the row of ")
    assert f"run --resume {run} runs stale cells again" in done.stderr


def test_cells_of_all_back_ends_are_ranked_together(tmp_path):
    path = ring(tmp_path, backend="packet", sweep={"backend": ["packet", "simulate"]})
    found = testbed.run(path, tmp_path / "results").results
    found = found.assign(over=found.jct_s / found.expected_jct_s).sort_values("over")

    def explained(most):
        done = invoke("explain", found.run[0], "--most", most)
        assert done.exit_code == 0, done.output
        return {cell for cell in found.cell if f"{cell}  " in done.output}

    assert explained(1) == {found.cell.iloc[-1]}
    assert explained(2) == {*found.cell}


def test_endless_queues_have_a_mark_that_switches_can_hold(tmp_path):
    """ATP marks packets of long queues, and `explain` asks how long it took without full ones."""
    deployment = Deployments().of(experiment(tmp_path, backend="packet"))
    endless = causes.removed(deployment, 0, causes.CAUSES)
    marks = [entries.long_queue for entries in tables(endless).values()]
    assert marks and all(0 < mark < 1 << 19 for mark in marks)


def test_rows_of_other_back_ends_are_explained_by_their_tables(tmp_path):
    path = ring(tmp_path, backend="simulate")
    tables = testbed.run(path, tmp_path / "results")
    done = invoke("explain", tables.results.run[0])
    assert done.exit_code == 0, done.output
    assert "not known: the simulator has no packets" in done.output
    (row,) = tables.results.itertuples()
    assert sum(parts.parts(row, tables.iterations)) == pytest.approx(row.jct_s)
    done = invoke("explain", tables.results.run[0], "--job", 99)
    assert done.exit_code == 2, done.output
    assert "--job: found 99, wanted at most 0" in done.output


def test_a_part_that_was_not_measured_is_left_out_of_the_sum(tmp_path):
    """A link's bytes are measured for all jobs together."""
    job = {"system": "ring", "workload": str(tmp_path / "tiny.trace"), "workers": 2}
    path = file(tmp_path, backend="simulate", jobs=[job, job])
    found = testbed.run(path, tmp_path / "results").results
    done = invoke("explain", found.run[0])
    assert done.exit_code == 0, done.output
    assert "nan" not in done.output
    seconds = {line[2:21].strip(): line[22:].split() for line in done.output.splitlines()[1:6]}
    assert seconds["ECMP, retransmitted"][:2] == ["–", "not"]
    assert seconds["sum"] == [f"{found.jct_s[0]:.4g}", "s", "100.0%"]
    assert "cost one another is in the last part" in done.output


def test_an_emulated_row_says_what_was_measured_and_what_is_not_known(tmp_path):
    """The tables are those of a run in packets, marked as emulated: they have the same columns."""
    paused = {"at": "400us", "until": "2ms", "host": "h0"}
    path = ring(
        tmp_path,
        backend="packet",
        jobs__0__iterations=4,
        jobs__0__options={"order": "naive"},
        emulation__faults=[paused],
        emulation__loss=0.01,
    )
    run = Path(testbed.run(path, tmp_path / "results").results.run[0])
    table = run / "results.csv"
    table.write_text(table.read_text().replace(",packet,", ",emulate,"))
    done = invoke("explain", run)
    assert done.exit_code == 0, done.output
    starts = [line.partition(":")[0] for line in done.output.splitlines()]
    wanted = ["busiest link", "ECMP", "iterations", "counters", "not known"]
    assert [start for start in starts if start in wanted] == wanted
    assert "takes" in done.output and "retransmissions" in done.output
    assert "t0>s" in done.output and "equal links" in done.output


def test_a_report_says_where_the_time_of_slow_cells_went(tmp_path):
    path = ring(tmp_path, backend="packet", emulation__loss=0.05)
    tables = testbed.run(path, tmp_path / "results")
    page = testbed.write_report(tables.results.run[0])
    cell = tables.results.cell[0]
    for text in (page.read_text(), page.with_suffix(".md").read_text()):
        assert "slowest cells in packets" in text
        assert cell in text


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "wanted packet"),
        (("--cell", "nowhere"), "wanted one of"),
    ],
)
def test_a_mistake_is_told(tmp_path, options, said):
    done = invoke("explain", ring(tmp_path), *options)
    assert done.exit_code == 2
    assert said in done.output


def test_it_needs_a_path():
    done = invoke(
        "explain",
    )
    assert done.exit_code == 2
    assert "wanted one, or --drills" in done.output


def test_a_job_that_is_not_there_is_refused(tmp_path):
    done = invoke("explain", ring(tmp_path, backend="packet"), "--job", 1)
    assert done.exit_code == 2
    assert "--job: found 1" in done.output


def test_an_empty_directory_is_refused(tmp_path):
    done = invoke("explain", tmp_path)
    assert done.exit_code == 2
    assert "results.csv" in done.output


def test_a_run_without_a_time_says_why(tmp_path):
    """A row may have neither a time nor an error; it is not the one that failed."""
    path = ring(tmp_path, backend="simulate", sweep={"jobs.0.workers": [2, 3]})
    run = Path(testbed.run(path, tmp_path / "results").results.run[0])
    table = pd.read_csv(run / "results.csv", dtype=str).assign(jct_s="", error=["", "it broke"])
    table.to_csv(run / "results.csv", index=False)
    done = invoke("explain", run)
    assert done.exit_code == 2
    assert "its first cell failed: it broke" in " ".join(done.output.split())


def test_a_cell_that_cannot_end_is_a_failed_run(tmp_path):
    path = ring(tmp_path, backend="packet", emulation__faults=[{"at": "1us", "host": "h0"}])
    done = invoke("explain", path)
    assert done.exit_code == 1
    assert "the run failed, so there is no JCT" in done.output


def test_what_cannot_be_deployed_has_a_place(tmp_path):
    path = file(tmp_path, backend="packet", jobs__0__system="switchml", fabric__ina="none")
    explained, validated = (invoke(verb, path) for verb in ("explain", "validate"))
    assert (explained.exit_code, validated.exit_code) == (2, 2)
    assert explained.output == validated.output
    assert f"{path}:" in explained.output and "not admitted" in explained.output
