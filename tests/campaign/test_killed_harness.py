"""kill -9 of the harness, at any time, loses only the cell that was running."""

from __future__ import annotations

import csv
import random
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest
from leftovers import command_of, descendants
from patience import assert_none
from tiny import file

from testbed.backends.emulation.cleanup import clean
from testbed.backends.recording import NOTHING
from testbed.campaign.evaluation import Resumed
from testbed.campaign.local import Local
from testbed.campaign.resume import Rules
from testbed.run_tables import read, read_metadata

COMMAND = [str(Path(sys.executable).parent / "ina-testbed")]
KILLS, SEED = 6, 7
LONGEST_S = 1.5
SYSTEMS, REPEATS = ["ps", "ring", "atp"], 4

pytestmark = pytest.mark.root


def finished(folder: Path) -> dict[tuple[str, str], str]:
    """The cell and repeat of every complete row, with its ``jct_s``."""
    tables = list(folder.glob("tiny/*/results.csv"))
    if not tables:
        return {}
    text = tables[0].read_text()
    rows = csv.DictReader(text[: text.rfind("\n") + 1].splitlines())
    return {(row["cell"], row["repeat"]): row["jct_s"] for row in rows}


def command(folder: Path) -> list[str]:
    """The command that a user would run next."""
    runs = list(folder.glob("tiny/*"))
    if not runs:
        return [*COMMAND, "run", str(folder / "tiny.yaml"), "-o", str(folder)]
    # The code may change while the test runs, but that does not affect the rows.
    return [*COMMAND, "run", "--resume", str(runs[0]), "--any-version"]


def killed(arguments: list[str], after_s: float, early: bool) -> dict[int, list[str]]:
    """Kill only the harness, ``after_s`` after its start or, unless ``early``, after the start of
    its first cell. Return its processes."""
    with subprocess.Popen(
        arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    ) as process:
        while not early and not descendants(process.pid) and process.poll() is None:
            time.sleep(0.05)
        time.sleep(after_s)
        left = {pid: command_of(pid) for pid in descendants(process.pid)}
        process.send_signal(signal.SIGKILL)
    return left


def test_kills_lose_no_row_and_leave_nothing(tmp_path):
    file(
        tmp_path,
        fabric__ina="all",
        sweep={"jobs.0.system": SYSTEMS},
        emulation__repeats=REPEATS,
    )
    moments = random.Random(SEED)
    rows: dict[tuple[str, str], str] = {}
    cells = len(SYSTEMS) * REPEATS
    for number in range(KILLS):
        if len(rows) > cells - len(SYSTEMS):
            break  # on a fast machine: the next kill might come after the end
        left = killed(command(tmp_path), moments.uniform(0, LONGEST_S), early=number % 5 == 4)
        now = finished(tmp_path)
        assert rows.items() <= now.items()
        rows = now
        clean()
        assert_none(partial(alive, left))

    (run,) = tmp_path.glob("tiny/*")
    rest = Resumed(run, None, Rules(any_version=True))
    assert len(rest.planned) == cells - len(rows)
    assert rest.run(NOTHING, Local(), quiet=True) == (run, 0)
    table = read(run).results
    assert len(table) == cells
    assert not table.duplicated(["cell", "repeat"]).any()
    assert table.verified.all()
    assert rows.items() <= finished(tmp_path).items()
    assert read_metadata(run)["finished_at"]


def alive(processes: dict[int, list[str]]) -> list[list[str]]:
    return [words for pid, words in processes.items() if is_alive(pid, words)]


def is_alive(pid: int, words: list[str]) -> bool:
    """Whether the process still runs; another process may have got its number."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX" and command_of(pid) == words
