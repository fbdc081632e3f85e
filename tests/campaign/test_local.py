"""Cells on this machine: which of them run side by side, and when their outcomes are known."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from patience import awaited
from tiny import experiment

from testbed.backends.recording import NOTHING
from testbed.campaign import local
from testbed.campaign.cell import CellResult
from testbed.campaign.local import Local
from testbed.campaign.planning import Planned, plan
from testbed.experiment.cells import expand


@pytest.fixture
def marks(tmp_path, monkeypatch) -> Path:
    """A folder where each cell keeps a file while it runs, as if on two cores.

    A simulated cell waits for the other one, and the first cell ends last.
    """
    folder = tmp_path / "marks"
    folder.mkdir()
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})

    def run_cell(cell, deployment, log_dir, recording):
        mark = folder / f"{cell.experiment.backend}-{cell.repeat}"
        mark.touch()
        if cell.experiment.backend == "emulate":
            seen = sorted(path.name for path in folder.iterdir() if path.suffix != ".ended")
            (folder / "seen.ended").write_text(" ".join(seen))
        else:
            other = folder / f"simulate-{1 - cell.repeat}"
            ended = other.with_suffix(".ended")
            awaited(lambda: other.exists() or ended.exists())
            if cell.repeat == 0:
                awaited(ended.exists)
        mark.rename(mark.with_suffix(".ended"))
        return CellResult([])

    monkeypatch.setattr(local, "run_cell", run_cell)
    return folder


def cells(folder: Path, *backends: str) -> list[Planned]:
    """One cell for each of ``backends``; cells of the same back end are repeats."""
    made = []
    for backend in backends:
        both = plan(expand(experiment(folder, backend=backend, emulation__repeats=2)))
        made.append(both[sum(each.cell.experiment.backend == backend for each in made)])
    return made


def test_simulated_cells_run_side_by_side(marks, tmp_path):
    asked = cells(tmp_path, "simulate", "simulate")
    started: list[Planned] = []
    told = list(Local().outcomes(asked, tmp_path, NOTHING, started.append))
    assert started == asked
    assert sorted(each.cell.repeat for each, _ in told) == [0, 1]
    assert all(isinstance(outcome, CellResult) for _, outcome in told), told


def test_an_emulated_cell_runs_alone(marks, tmp_path):
    asked = cells(tmp_path, "simulate", "simulate", "emulate")
    told = list(Local().outcomes(asked, tmp_path, NOTHING, lambda each: None))
    assert len(told) == 3 and told[-1][0] == asked[2]
    assert all(isinstance(outcome, CellResult) for _, outcome in told), told
    assert (marks / "seen.ended").read_text() == "emulate-0"


def test_what_is_not_waited_for_is_ended(tmp_path, monkeypatch):
    pids = tmp_path / "pids"
    pids.mkdir()

    def run_cell(cell, deployment, log_dir, recording):
        (pids / str(os.getpid())).touch()
        awaited(lambda: False)

    monkeypatch.setattr(local, "run_cell", run_cell)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})

    def interrupt(each: Planned) -> None:
        if each.cell.repeat == 1:
            awaited(lambda: list(pids.iterdir()))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(Local().outcomes(cells(tmp_path, *["simulate"] * 2), tmp_path, NOTHING, interrupt))
    (pid,) = pids.iterdir()
    assert not Path("/proc", pid.name).exists()


def test_a_cell_is_told_while_an_earlier_one_still_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    monkeypatch.setattr(local, "run_cell", run_cell := _Waiting(tmp_path))
    cells = plan(expand(experiment(tmp_path, backend="simulate", emulation__repeats=8)))
    told, held = [], []
    for each, _ in Local().outcomes(cells, tmp_path, NOTHING, lambda each: None):
        told.append(each)
        held.append(len(os.listdir("/proc/self/fd")))
        if len(told) == len(cells) - 1:
            run_cell.others.touch()
    assert told == [*cells[1:], cells[0]]
    assert max(held) <= held[0]


class _Waiting:
    """Runs nothing; the first repeat waits until the others have ended."""

    def __init__(self, folder: Path) -> None:
        self.others = folder / "others"

    def __call__(self, cell, deployment, log_dir, recording):
        if cell.repeat == 0:
            awaited(self.others.exists)
        return CellResult([])
