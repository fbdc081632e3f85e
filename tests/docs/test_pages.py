"""Every file and command on the pages of the documentation does what the page says."""

from __future__ import annotations

import doctest
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
from pages import Command, File, steps

from testbed.cli import main

ROOT = Path(__file__).parents[2]
PAGES = {
    page.relative_to(ROOT / "docs").with_suffix("").as_posix(): page
    for page in sorted((ROOT / "docs").rglob("*.md"))
    if any(isinstance(step, Command) for step in steps(page))
}
SLOW = {name for name, page in PAGES.items() if "\n% slow\n" in page.read_text()}
OFFERED = {
    "torch": lambda: importlib.util.find_spec("torch") is not None,
    "p4c": lambda: shutil.which("p4c-bm2-ss") is not None,
}
IN_A_CLONE = ("experiments", "workloads", "examples")
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
CELL = re.compile(r"^\[\d+/\d+\] (.+)$", re.MULTILINE)
"""A line that reports a cell. Cells run side by side, so they may end in any order."""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A folder with the content of a clone, and with this testbed's programs."""
    for name in IN_A_CLONE:
        (tmp_path / name).symlink_to(ROOT / name)
    programs = tmp_path / ".bin"
    programs.mkdir()
    for name, arguments in (("ina-testbed", "-m testbed.cli"), ("python", "")):
        (programs / name).write_text(f'#!/bin/sh\nexec {sys.executable} {arguments} "$@"\n')
        (programs / name).chmod(0o755)
    return tmp_path


def told(command: Command, folder: Path) -> None:
    environment = os.environ | {
        "PATH": f"{folder / '.bin'}:{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).strip(":"),
        "COLUMNS": "80",
    }
    environment.pop("INA_TESTBED_EXTENSIONS", None)  # a user's folder is found where they call
    done = subprocess.run(
        ["bash", "-c", command.line],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == command.exit_code, f"{command.line}\n{done.stdout}"
    if command.printed:
        assert as_said(command.printed, done.stdout), (
            f"{command.line}\nsaid:\n{command.printed}\nprinted:\n{done.stdout}"
        )


def as_said(said: str, printed: str) -> bool:
    check = doctest.OutputChecker().check_output
    cells = [f"{each}\n" for each in CELL.findall(printed)]
    return check(CELL.sub("...", said), printed, FLAGS) and all(
        any(check(f"{wanted}\n", cell, FLAGS) for cell in cells) for wanted in CELL.findall(said)
    )


def test_cells_may_end_in_any_order() -> None:
    said = "...\n[1/2] ring: JCT 1 s...\n[2/2] ps: JCT 2 s\nreport: ...\n"
    assert as_said(said, "[1/2] ps: JCT 2 s\n[2/2] ring: JCT 1 s, valid\nreport: here\n")
    assert not as_said(said, "[1/2] ps: JCT 3 s\n[2/2] ring: JCT 1 s, valid\nreport: here\n")
    assert not as_said(said, "[1/2] ps: JCT 2 s\nreport: here\n")
    assert not as_said(said, "[1/2] ps: JCT 2 s\n[2/2] ring: JCT 1 s, valid\n")


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in PAGES],
)
def test_a_page_does_what_it_says(name: str, clone: Path) -> None:
    for step in steps(PAGES[name]):
        if isinstance(step, File):
            (clone / step.name).parent.mkdir(parents=True, exist_ok=True)
            (clone / step.name).write_text(step.text)
        elif not step.not_run and (not step.needs or OFFERED[step.needs]()):
            told(step, clone)


@pytest.mark.parametrize("name", PAGES)
def test_a_command_that_is_not_run_exists_too(name: str) -> None:
    for step in steps(PAGES[name]):
        if isinstance(step, Command) and "ina-testbed " in step.line:
            words = re.split(r"  #| \| ", step.line.partition("ina-testbed ")[2])[0].split()
            command: click.Command = main
            while isinstance(command, click.Group) and words:
                context = click.Context(command)
                found = command.get_command(context, words[0])
                if found is None:
                    assert words[0] in ("-h", "--help", "--version"), step.line
                    break
                command, words = found, words[1:]
            known = {option for each in command.params for option in each.opts} | {"--help"}
            for word in words:
                assert not word.startswith("-") or word.partition("=")[0] in known, step.line


def test_a_page_that_says_something_else_is_found(clone: Path) -> None:
    told(Command("echo one two", "one ...\n"), clone)
    with pytest.raises(AssertionError, match="said:"):
        told(Command("echo one two", "one three\n"), clone)
    with pytest.raises(AssertionError):
        told(Command("false", ""), clone)


def test_what_a_page_needs_is_something_that_the_tests_know() -> None:
    needs = {
        step.needs
        for page in PAGES.values()
        for step in steps(page)
        if isinstance(step, Command) and step.needs
    }
    assert needs <= set(OFFERED)


def test_every_verb_is_on_a_page():
    pages = "\n".join(page.read_text() for page in (ROOT / "docs").rglob("*.md"))
    shown = set(re.findall(r"""ina-testbed(?:\)")? ([a-z-]+)""", pages))
    assert set(main.list_commands(click.Context(main))) <= shown
