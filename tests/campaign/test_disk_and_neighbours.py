"""A disk that fills up under the results, and two harnesses at once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from patience import PATIENCE_S
from tiny import file

from testbed.run_tables import read, read_metadata

COMMAND = str(Path(sys.executable).parent / "ina-testbed")

pytestmark = pytest.mark.root

RUN = "import sys, testbed; testbed.run(*sys.argv[1:])"  # without a report
# The disk is visible only here, and vanishes with this shell.
FILLED = """
mount -t tmpfs -o size=40k none "$1" && cd "$1" || exit 99
"$2" run "$3" -o results 2> "$4/full.txt"
echo $? > "$4/full.rc"
cp -r results "$4/before"
mount -o remount,size=64m "$1"
"$2" run --resume results/tiny/* 2> "$4/resumed.txt"
echo $? > "$4/resumed.rc"
cp -r results "$4/after"
"""


def test_a_full_disk_is_named_and_the_run_goes_on_when_there_is_room(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    asked = file(tmp_path, backend="simulate", emulation__repeats=40)
    arguments = [str(disk), COMMAND, str(asked), str(tmp_path)]
    subprocess.run(
        ["unshare", "--mount", "sh", "-c", FILLED, "sh", *arguments],
        check=True,
        timeout=3 * PATIENCE_S,
    )
    said = (tmp_path / "full.txt").read_text()
    assert (tmp_path / "full.rc").read_text() == "1\n", said
    (last,) = [line for line in said.splitlines() if line.startswith("Error: ")]
    assert ".csv: no space left on device; free some space" in last
    assert "Traceback" not in said
    before = read(tmp_path / "before").results
    assert 0 < len(before) < 40
    assert (tmp_path / "resumed.rc").read_text() == "0\n", (tmp_path / "resumed.txt").read_text()
    after = read(tmp_path / "after").results
    assert sorted(after.repeat) == list(range(40))
    kept = after[after.repeat.isin(before.repeat)]
    assert list(kept.jct_s) == list(before.jct_s)


def test_two_harnesses_at_once_disturb_no_sum(tmp_path):
    """Side by side they are slow, and their verdicts may say so. But each has its own namespaces,
    processes and directory."""
    asked = file(tmp_path, fabric__ina="all")
    both = [
        subprocess.Popen(
            [sys.executable, "-c", RUN, str(asked), str(tmp_path / "results")],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for process in both:
        _, said = process.communicate(timeout=3 * PATIENCE_S)
        assert process.returncode == 0, said
    runs = list((tmp_path / "results/tiny").iterdir())
    assert len(runs) == 2
    for directory in runs:
        (row,) = read(directory).results.itertuples()
        assert (row.error, row.verified) == ("", True)
        assert read_metadata(directory)["finished_at"]
