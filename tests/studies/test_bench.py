"""``bench all-reduce``: sizes, figures that follow from their definitions, and what it refuses."""

from __future__ import annotations

import csv
import json

import pytest
import tiny
from verbs import invoke

from testbed.deployment import experiments
from testbed.studies import bench

PAYLOAD, FRAME = 1024, 1090  # bytes of an INA packet's values, and of the packet on the wire


def test_the_help_names_the_default_system():
    usual = bench.experiment(None, [], [1024]).sweep
    assert usual is not None
    assert (
        f"[{usual.zip['jobs.0.system'][0]}, or FILE's]"
        in invoke("bench", "all-reduce", "--help").output
    )


@pytest.mark.parametrize(
    ("text", "size"), [("8", 8), ("1K", 1024), ("3m", 3 << 20), ("1G", 1 << 30)]
)
def test_sizes_are_those_of_nccl_tests(text, size):
    assert bench.parse(text) == size


def test_sizes_grow_by_the_factor_and_hold_whole_values():
    assert bench.sizes(10, 200, 3) == [8, 28, 88]


def test_a_ring_fills_the_line_and_a_switch_halves_the_bytes(tmp_path):
    path = tmp_path / "rows.json"
    done = invoke(
        "bench", "all-reduce", "-b", "64M", "--system", "ring", "--system", "switchml", "-o", path
    )
    assert done.exit_code == 0, done.output
    ring, switchml = json.loads(path.read_text())
    for row in (ring, switchml):
        assert row["size_bytes"] == 4 * row["count"] == 1 << 26
        assert row["algbw_gbyte_s"] == pytest.approx(row["size_bytes"] / row["time_s"] / 1e9)
        assert row["ring_busbw_gbyte_s"] == pytest.approx(row["algbw_gbyte_s"] * 2 * 7 / 8)
        assert row["wrong"] is None
    line_rate = 10 / 8
    assert 0.9 * line_rate < ring["ring_busbw_gbyte_s"] < line_rate
    assert line_rate < switchml["ring_busbw_gbyte_s"]
    assert switchml["busiest_bytes"] == pytest.approx((1 << 26) * FRAME / PAYLOAD)
    assert ring["busiest_bytes"] > 1.75 * (1 << 26)


def test_packets_carry_the_same_bytes_and_check_every_sum(tmp_path):
    path = tmp_path / "rows.csv"
    done = invoke(
        "bench",
        "all-reduce",
        *("-b", "64K", "-e", "256K", "-f", 4, "--system", "switchml"),
        *("--backend", "packet", "-n", 2, "-w", 0, "-o", path),
    )
    assert done.exit_code == 0, done.output
    with path.open() as file:
        rows = list(csv.DictReader(file))
    assert [int(row["size_bytes"]) for row in rows] == [65536, 262144]
    assert [row["wrong"] for row in rows] == ["0", "0"]
    for row in rows:
        assert float(row["busiest_bytes"]) == int(row["size_bytes"]) * FRAME / PAYLOAD
    printed = [line.split() for line in done.output.splitlines() if not line.startswith("#")]
    assert [line[0] for line in printed] == ["65536", "262144"]
    assert {line[-1] for line in printed} == {"0"}


def test_a_file_lends_its_fabric_its_hosts_and_its_options(tmp_path):
    path = tiny.file(
        tmp_path,
        backend="packet",
        jobs__0__system="ring",
        jobs__0__options={"order": "naive"},
        sweep={"jobs.0.workers": [3, 4]},
    )
    base = experiments.read(path)
    asked = bench.experiment(base, ["atp", "ring"], [4096])
    assert asked.backend == "packet"
    cells = bench.planned(asked)
    assert [cell.deployment.jobs[0].system.name for cell in cells] == ["atp", "ring"]
    assert {cell.deployment.jobs[0].plan.workers for cell in cells} == {3}
    assert [cell.cell.experiment.jobs[0].options for cell in cells] == [{}, {"order": "naive"}]
    assert bench.experiment(base, [], [4096], "flow").backend == "simulate"


def test_a_failed_run_is_a_line_of_its_own_and_the_exit_code(tmp_path):
    path = tiny.file(
        tmp_path,
        backend="packet",
        fabric__ina="all",
        emulation__faults=[{"at": "0s", "host": "h0"}],
    )
    done = invoke("bench", "all-reduce", "--experiment", path, "-b", "64K")
    assert done.exit_code == 1
    assert "# atp, 65.5kB: FAILED: " in done.output
    assert "/s, 1 fault in each run; back end" in done.output


def test_loss_is_told_above_the_table(tmp_path):
    loss = {"h0-t0": 0.001, "h1-t0": 0.0}
    path = tiny.file(tmp_path, backend="packet", emulation__loss=loss, fabric__ina="all")
    done = invoke("bench", "all-reduce", "--experiment", path, "-b", "64K")
    assert "/s, loss of up to 0.001 on 1 link; back end" in done.output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-b", "1X"], ["found '1X'", "64K"]),
        (["-b", "2K", "-e", "1K"], ["2048 to 1024"]),
        (["-b", "3"], ["at least 4 bytes"]),
        (["--system", "asp"], ["found asp", "all-reduces"]),
        (["--system", "rign"], ["rign", "ring"]),
        (["--workers", "99"], ["jobs.0.workers: found 99", "10 hosts"]),
        (["-o", "x.txt"], ["x.txt", ".csv or .json"]),
    ],
    ids=lambda each: " ".join(each),
)
def test_what_cannot_be_measured_is_told(arguments, words):
    done = invoke("bench", "all-reduce", *arguments)
    assert done.exit_code == 2
    assert all(word in done.output for word in words), done.output
    assert "experiment:" not in done.output
