"""Results: only complete rows, even if the writer is killed, and tables of several runs."""

from __future__ import annotations

import csv
import io
import json
import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import pandas as pd
import pytest

from testbed import results, run_tables
from testbed.campaign.resume import arrange
from testbed.results import (
    COLUMNS,
    Iteration,
    LinkLoad,
    PacketDigests,
    Progress,
    Row,
    RunDirectory,
)
from testbed.run_tables import read
from testbed.studies.watching import look

ROW = Row(
    experiment="quick",
    cell="8fa43b1ea8",
    repeat=0,
    job=0,
    system="atp",
    workload="resnet50",
    topology="leaf-spine 2x5, 2 spines",
    workers=8,
    servers=1,
    ina_tors=2,
    tors=2,
    backend="emulate",
    switch_target="native",
    dilation=200.0,
    scale=1 / 128,
    iterations=3,
    jct_s=0.123456789012345,
    iteration_s=0.04,
    throughput_samples_s=1e4,
    algbw_gbit_s=9.5,
    exposed_comm_s=0.01,
    retransmitted=0,
    collisions=7,
    overflows=0,
    switch_packets=900,
    switch_sums=100,
    switch_duplicates=2,
    switch_collisions=3,
    switch_refused=0,
    verified=True,
    verdict="valid",
    expected_jct_s=0.12,
    routed_jct_s=0.121,
    started_at="2026-11-21T07:00:00Z",
    quantisation="factor 1e+06",
    quantisation_error=1e-3,
)
ITERATION = Iteration("8fa43b1ea8", 0, 0, "atp", "resnet50", 3, 1, 0.5, 0.75, 1.0)
LINK = LinkLoad("8fa43b1ea8", 0, "h0", "t0", "host", "tor", 10.0, 1.5e9, 0.25)
DIGESTS = PacketDigests("8fa43b1ea8", 0, 100, 64, "ab")
PROGRESS = Progress("8fa43b1ea8", 0, 0, "atp", "digits-cnn", 1.0, 0.5, "accuracy", True, 0.9)


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory.create(tmp_path, "quick")


def test_a_row_reads_back_as_it_was(run: RunDirectory) -> None:
    run.append([ROW])
    waited = replace(ITERATION, iteration=2, stalled_s=0.125, stalls="[[0.5, 0.625]]")
    run.append_iterations([ITERATION, waited])
    tables = read(run.path)
    assert list(tables.results.columns) == [*COLUMNS, "run"]
    found = {str(name): value for name, value in tables.results.iloc[0].items()}
    assert found.pop("run") == str(run.path)
    assert Row(**found) == ROW
    assert tables.iterations["iteration"].tolist() == [1, 2]
    assert tables.iterations["end_s"].dtype == float
    (_, again) = tables.iterations.drop(columns="run").to_dict("records")
    assert Iteration(**again) == waited


def test_an_iteration_may_wait_thousands_of_times(run: RunDirectory) -> None:
    run.append([ROW])
    stalls = json.dumps([[at + 1 / 3, at + 2 / 3] for at in range(4000)])
    waited = replace(ITERATION, stalled_s=4000 / 3, stalls=stalls)
    run.append_iterations([replace(waited, repeat=1), waited])
    arrange(run, [(waited.cell, "0"), (waited.cell, "1")])
    table = read(run.path).iterations
    assert table["repeat"].tolist() == [0, 1]
    assert table["stalls"].tolist() == [stalls, stalls]


def test_loads_of_links_read_back_and_may_be_missing(run: RunDirectory) -> None:
    run.append_links([LINK])
    (found,) = read(run.path).links.drop(columns="run").to_dict("records")
    assert LinkLoad(**found) == LINK
    (run.path / "links.csv").unlink()
    assert len(read(RunDirectory(run.path).path).links) == 0


def test_a_failed_cell_is_a_row_with_its_reason(run: RunDirectory) -> None:
    reason = 'worker 3 of "atp", on h4:\nkilled,\tby signal 9'
    failed = replace(ROW, jct_s=None, retransmitted=None, verified=False, verdict="", error=reason)
    run.append([failed, ROW])
    table = read(run.path).results
    assert table["error"].tolist() == ['worker 3 of "atp", on h4: killed, by signal 9', ""]
    assert table["verified"].tolist() == [False, True]
    assert pd.isna(table["jct_s"][0])
    assert table["jct_s"][1] == ROW.jct_s


def test_what_makes_no_sums_is_neither_verified_nor_wrong(run: RunDirectory) -> None:
    run.append([replace(ROW, verified=None), ROW])
    with (run.path / "results.csv").open() as file:
        assert [row["verified"] for row in csv.DictReader(file)] == ["", "True"]
    verified = read(run.path).results["verified"]
    assert verified.tolist() == [None, True]
    assert verified.isna().tolist() == [True, False]


def test_text_that_looks_like_a_number_stays_text(run: RunDirectory) -> None:
    run.append([replace(ROW, cell="0012345678", experiment="1e5", workload="None")])
    table = read(run.path).results
    assert table.loc[0, ["cell", "experiment", "workload"]].tolist() == [
        "0012345678",
        "1e5",
        "None",
    ]


def test_runs_of_the_same_second_have_their_own_directories(tmp_path: Path) -> None:
    now = datetime(2026, 11, 21, 7, 0, 0, tzinfo=timezone.utc)
    paths = [RunDirectory.create(tmp_path, "quick", now).path for _ in range(3)]
    assert [path.name for path in paths] == [
        "20261121-070000",
        "20261121-070000-2",
        "20261121-070000-3",
    ]
    assert all((path / "logs").is_dir() for path in paths)


def test_tables_of_several_runs_together(tmp_path: Path) -> None:
    first, second, empty = (RunDirectory.create(tmp_path, name) for name in ("a", "a", "b"))
    first.append([ROW])
    second.append([ROW, replace(ROW, repeat=1)])
    # One column more and one less, as in another version's table.
    table = pd.read_csv(second.path / "results.csv").drop(columns="collisions").assign(extra=1)
    table.to_csv(second.path / "results.csv", index=False)
    (second.path / "iterations.csv").unlink()
    together = read([first.path, second.path, empty.path]).results
    assert together["run"].tolist() == [str(first.path), str(second.path), str(second.path)]
    assert together["collisions"].isna().tolist() == [False, True, True]
    assert list(together.columns) == [*COLUMNS, "run"]
    pd.testing.assert_frame_equal(read(tmp_path).results, together)
    assert len(read([first.path, tmp_path / "a"]).results) == 3


def test_an_empty_run_has_an_empty_table(run: RunDirectory) -> None:
    tables = read(run.path)
    assert len(tables.results) == len(tables.iterations) == 0
    assert list(tables.results.columns) == [*COLUMNS, "run"]


def test_no_results_at_all(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"found no results\.csv"):
        read(tmp_path)


def test_half_a_row_is_neither_read_nor_continued(run: RunDirectory) -> None:
    run.append([ROW])
    with (run.path / "results.csv").open("a") as file:
        file.write("quick,8fa43b1ea8,1,0,a")
    assert len(read(run.path).results) == 1
    RunDirectory(run.path).append([replace(ROW, repeat=2)])
    assert read(run.path).results["repeat"].tolist() == [0, 2]


def test_only_a_run_can_be_opened(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        RunDirectory(tmp_path)


READERS = {
    "results.csv": read,
    "iterations.csv": read,
    "links.csv": read,
    "digests.csv": run_tables.read_digests,
    "training.csv": run_tables.read_training,
}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize(
    "change, said",
    [
        (lambda row: row[:-1], r":3: found (\d+) fields under (\d+) columns"),
        (lambda row: [*row, "1"], r":3: found (\d+) fields under (\d+) columns"),
        (lambda row: [row[0], "often", *row[2:]], ":3: found 'often' as (repeat|cell), wanted a"),
        (lambda row: ["\udcff"], ": found no text"),
    ],
    ids=["short", "long", "word", "bytes"],
)
def test_a_damaged_row_is_named(
    name: str, change: Callable[[list[str]], list[str]], said: str, run: RunDirectory
) -> None:
    run.append([ROW, replace(ROW, repeat=1)])
    run.append_iterations([ITERATION, replace(ITERATION, iteration=2)])
    run.append_links([LINK, replace(LINK, repeat=1)])
    run.append_digests([DIGESTS, replace(DIGESTS, repeat=1)])
    run.append_progress([PROGRESS, replace(PROGRESS, repeat=1)])
    assert all(len(reader(run.path)) for reader in READERS.values())
    path = run.path / name
    heading, first, second = path.read_text().splitlines()
    columns = heading.split(",")
    (fields,) = csv.reader([second])
    # The column repeat is the second, or the third of results.csv.
    at = columns.index("repeat") - 1
    fields = fields[:at] + change(fields[at:])
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(fields)
    content = f"{heading}\n{first}\n{text.getvalue()}"
    path.write_bytes(content.encode(errors="surrogateescape"))
    with pytest.raises(run_tables.Unreadable, match=f"{name}{said}"):
        READERS[name](run.path)


def test_a_table_without_a_column_that_all_versions_had(run: RunDirectory) -> None:
    run.append([ROW])
    table = pd.read_csv(run.path / "results.csv").drop(columns=["jct_s", "verdict"])
    table.to_csv(run.path / "results.csv", index=False)
    with pytest.raises(run_tables.Unreadable, match=r":1: found no column jct_s, verdict"):
        read(run.path)


@pytest.mark.parametrize("text", ["[]", "{", "5"])
def test_settings_that_are_no_mapping(text: str, run: RunDirectory) -> None:
    run.append([replace(ROW, settings=text)])
    with pytest.raises(run_tables.Unreadable, match=r":2: found .* as settings, wanted a JSON obj"):
        read(run.path)


@pytest.mark.parametrize(
    "change, said",
    [
        ({"jct_s": 0.0}, "'0.0' as jct_s, wanted a number above 0"),
        ({"jct_s": 1e308}, "'1e+308' as jct_s, wanted a number below 1e+100"),
        ({"tors": 0}, "'0' as tors, wanted a number from 1 on"),
        ({"workers": 2.5}, "'2.5' as workers, wanted a whole number"),
        ({"retransmitted": 0.5}, "'0.5' as retransmitted, wanted a whole number"),
        ({"workload": "a\0b"}, "'a\\x00b' as workload, wanted text without control characters"),
    ],
)
def test_figures_that_no_run_has(change: dict, said: str, run: RunDirectory) -> None:
    run.append([replace(ROW, repeat=1), replace(ROW, **change)])
    with pytest.raises(run_tables.Unreadable) as raised:
        read(run.path)
    assert str(raised.value) == f"{run.path}/results.csv:3: found {said}, as `run` wrote it"


@pytest.mark.parametrize("jct_s", [0.0, 1e308])
def test_who_watches_a_run_is_told_of_such_times_too(jct_s: float, run: RunDirectory) -> None:
    run.append([replace(ROW, jct_s=jct_s, repeat=repeat) for repeat in range(2)])
    with pytest.raises(run_tables.Unreadable, match=r":2: found .* as jct_s, wanted seconds above"):
        look(run.path)


def test_the_error_of_a_users_code_may_have_any_characters(run: RunDirectory) -> None:
    run.append([replace(ROW, jct_s=None, error="a\0b\x1b[0m")])
    assert read(run.path).results["error"].tolist() == ["a\ufffdb\ufffd[0m"]


def _write_forever(path: Path) -> None:
    run = RunDirectory(path)
    for repeat in range(10**6):
        run.append([replace(ROW, repeat=repeat, job=job, error="x" * 3000) for job in (0, 1)])
        (path / "done").write_text(str(repeat))


def test_a_killed_writer_loses_no_finished_row(run: RunDirectory) -> None:
    process = multiprocessing.get_context("spawn").Process(target=_write_forever, args=(run.path,))
    process.start()
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        # Reading while the writer writes never finds a part of a row.
        table = read(run.path).results
        assert (table["started_at"] == ROW.started_at).all()
        if len(table) > 40:
            break
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    done = int((run.path / "done").read_text() or "-1")
    run = RunDirectory(run.path)
    run.append([replace(ROW, repeat=10**9)])
    table = read(run.path).results
    repeats = table["repeat"].tolist()
    assert len(repeats) > 40
    finished = range(done + 1)
    assert [r for r in repeats if r in finished] == [r for r in finished for _ in "ab"]
    assert repeats[-1] == 10**9
    assert (table["started_at"] == ROW.started_at).all()


def test_metadata_is_replaced_as_a_whole(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run_tables.read_metadata(run.path) == {}
    run.write_metadata({"seeds": [1]})

    def full(*_: object) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="no space"):
            run.write_metadata({"seeds": [2]})
    assert run_tables.read_metadata(run.path) == {"schema_version": 1, "seeds": [1]}
    run.write_metadata({"seeds": [3]})
    assert json.loads((run.path / "run.json").read_text())["seeds"] == [3]


def test_bandwidths_are_those_of_nccl_tests() -> None:
    # 1 GB in 0.1 s is 80 Gbit/s; 4 ranks send 2 * 3 / 4 of it.
    assert results.algbw(10**9, 0.1) == pytest.approx(80e9)
    assert results.busbw(10**9, 0.1, 4) == pytest.approx(120e9)
    assert results.busbw(10**9, 0.1, 1) == 0
