"""CI's workflows: their commands are valid, and the files that they name exist."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import click
import pytest

from testbed.cli import main
from testbed.located import read

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.y*ml"))
SCRIPTS = sorted((ROOT / "experiments").glob("*.sh"))


def commands(path: Path) -> list[list[str]]:
    """The command lines of a script or a workflow, without sudo."""
    if path.suffix == ".sh":
        lines = path.read_text().splitlines()
    else:
        jobs = read(path).data["jobs"].values()
        steps = [step for job in jobs for step in job["steps"]]
        lines = [line for step in steps for line in step.get("run", "").splitlines()]
    return [shlex.split(line.removeprefix("sudo "), comments=True) for line in lines]


def verbs(path: Path) -> list[list[str]]:
    """The arguments of each `ina-testbed`. Shell variables are not expanded."""
    return [
        words[at + 1 :]
        for words in commands(path)
        for at, word in enumerate(words)
        if word.endswith("bin/ina-testbed")
    ]


def parse(arguments: list[str]) -> click.Context:
    """Parse the arguments as the command line does, without running the command."""
    outer = click.Context(main, info_name="ina-testbed")
    name, command, rest = main.resolve_command(outer, arguments)
    assert command is not None
    return command.make_context(name, rest, parent=outer)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_scripts_that_are_called_are_there_and_can_be(path):
    called = [words[0] for words in commands(path) if words[0].startswith("./")]
    assert called
    for name in called:
        assert os.access(ROOT / name, os.X_OK), name


@pytest.mark.parametrize("path", [*WORKFLOWS, *SCRIPTS], ids=lambda path: path.name)
def test_every_command_is_one_of_ours_and_names_files_that_are_here(path, monkeypatch, tmp_path):
    monkeypatch.chdir(ROOT)
    for arguments in verbs(path):
        if any("$" in word for word in arguments):
            arguments = [str(tmp_path) if "$" in word else word for word in arguments]
        parse(arguments)
        for word in arguments:
            if word.startswith("experiments/"):
                assert (ROOT / word).exists(), word


def test_what_is_run_is_what_is_compared():
    found = [arguments[0] for path in WORKFLOWS for arguments in verbs(path)]
    assert found == ["torture", "run", "compare"]
