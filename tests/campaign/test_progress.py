"""What a run shows on a real terminal, byte by byte."""

from __future__ import annotations

import os
import pty
from contextlib import suppress
from dataclasses import replace

import pytest
import tiny
from rich.console import Console

from testbed.campaign.evaluation import New
from testbed.campaign.progress import Progress
from testbed.campaign.standings import Standings
from testbed.results import RunDirectory

WIDTH = 40
ERASE = "\r\x1b[2K"


@pytest.fixture
def planned(tmp_path):
    """Two cells; their titles hold what rich would take for markup and for an emoji."""
    asked = tiny.experiment(tmp_path, backend="simulate", emulation__repeats=2)
    return [
        replace(each, cell=replace(each.cell, settings={"x.note": "[b]:fire:"}))
        for each in New(asked, tmp_path).planned
    ]


def shown(planned, folder, kind="xterm"):
    """All that a terminal gets while the cells run."""
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as file:
        console = Console(file=file, width=WIDTH, force_terminal=True, _environ={"TERM": kind})
        directory = RunDirectory.create(folder, "tiny")
        progress = Progress(planned, directory, Standings({}), console)
        for each in planned:
            progress.start(each)
            progress.finish(each, "done", [])
    found = b""
    with suppress(OSError):  # the other end is closed
        while more := os.read(ours, 4096):
            found += more
    os.close(ours)
    return found.decode()


def test_each_line_replaces_the_live_one(planned, tmp_path):
    first, *lines = shown(planned, tmp_path).split(ERASE)
    assert first == ""
    assert [line.endswith("\r\n") for line in lines] == [False, True, False, True]
    assert [line[:5] for line in lines] == ["[1/2]", "[1/2]", "[2/2]", "[2/2]"]
    assert all(len(line) <= WIDTH for line in lines[::2])
    assert all("note=[b]:fire: repeat" in line for line in lines[1::2])


def test_a_terminal_that_cannot_erase_gets_whole_lines(planned, tmp_path):
    lines = shown(planned, tmp_path, "dumb").splitlines()
    assert [line[:5] for line in lines] == ["[1/2]", "[1/2]", "[2/2]", "[2/2]"]
