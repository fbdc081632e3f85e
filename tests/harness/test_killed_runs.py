"""kill -9 of a run at any moment loses no row that was finished, and leaves nothing behind."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from leftovers import assert_gone, descendants, namespace_of
from tiny import file

from testbed.emulation.cleanup import clean
from testbed.results import read

COMMAND = [str(Path(sys.executable).parent / "ina-testbed"), "run"]
MOMENTS = 10
LONGEST_S = 1.5

pytestmark = [pytest.mark.root, pytest.mark.slow]


def start(*words: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*COMMAND, *map(str, words)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def lines(run: Path) -> list[str]:
    """Whole lines of results.csv: what a reader may have seen."""
    return (run / "results.csv").read_text().rpartition("\n")[0].splitlines()


def inside(pid: int) -> set[int]:
    """Network namespaces that a run has made."""
    found = {namespace_of(each) for each in descendants(pid)}
    return {each for each in found if each is not None and each != namespace_of(os.getpid())}


def wait_for_a_fabric(process: subprocess.Popen[bytes]) -> None:
    while process.poll() is None and not inside(process.pid):
        time.sleep(0.02)


def test_a_run_that_is_killed_time_and_again_comes_to_its_end(tmp_path):
    experiment = file(
        tmp_path,
        fabric__ina="all",
        sweep={"backend": ["emulate", "simulate"], "jobs.0.system": ["ps", "ring", "atp"]},
        emulation__repeats=3,
    )
    draw = random.Random(1)
    process = start(experiment, "-o", tmp_path)
    while not list(tmp_path.glob("tiny/*/run.json")):
        assert process.poll() is None
        time.sleep(0.02)
    (run,) = (tmp_path / "tiny").iterdir()
    seen = 0
    for moment in range(MOMENTS):
        if moment % 2:  # else it may be killed while it gets going
            wait_for_a_fabric(process)
        time.sleep(draw.uniform(0, LONGEST_S))
        before, namespaces = lines(run), inside(process.pid)
        seen += bool(namespaces)
        process.send_signal(signal.SIGKILL)
        process.wait()
        clean()
        if namespaces:
            assert_gone(namespaces, 20)
        assert lines(run)[: len(before)] == before
        process = start("--resume", run)
    assert process.wait(300) == 0
    assert seen, "no moment fell into an emulated cell"
    rows = read(run).results
    assert len(rows) == 18
    assert not rows.duplicated(["cell", "repeat"]).any()
    assert (rows.error == "").all()
    iterations = read(run).iterations
    assert len(iterations) == 18 * 4 * 2
    assert not iterations.duplicated(["cell", "repeat", "rank", "iteration"]).any()
