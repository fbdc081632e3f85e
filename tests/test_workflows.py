"""What GitHub is asked to do: workflows are well formed, and their commands are those of here."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path
from typing import Any

import click
import pytest

from testbed.cli import main
from testbed.located import read

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.y*ml"))
SCRIPTS = sorted((ROOT / "experiments").glob("*.sh"))
TRIGGERS = {"push", "pull_request", "schedule", "workflow_dispatch"}


def steps(path: Path) -> list[dict[str, Any]]:
    return [step for job in read(path).data["jobs"].values() for step in job["steps"]]


def commands(path: Path) -> list[list[str]]:
    """Command lines without sudo; those of a script as well as those of a workflow."""
    if path.suffix == ".sh":
        lines = path.read_text().splitlines()
    else:
        lines = [line for step in steps(path) for line in step.get("run", "").splitlines()]
    return [shlex.split(line.removeprefix("sudo "), comments=True) for line in lines]


def verbs(path: Path) -> list[list[str]]:
    """The arguments of each `ina-testbed`; what a shell would fill in stands as it is."""
    return [
        words[at + 1 :]
        for words in commands(path)
        for at, word in enumerate(words)
        if word.endswith("bin/ina-testbed")
    ]


def parse(arguments: list[str]) -> click.Context:
    """As the command line would, up to running it."""
    outer = click.Context(main, info_name="ina-testbed")
    name, command, rest = main.resolve_command(outer, arguments)
    assert command is not None
    return command.make_context(name, rest, parent=outer)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_is_one(path):
    workflow = read(path).data
    assert set(workflow) <= {"name", "on", "permissions", "env", "jobs"}
    assert set(workflow["on"]) <= TRIGGERS
    assert workflow["jobs"]
    for job in workflow["jobs"].values():
        assert {"runs-on", "steps"} <= set(job)
        assert set(job) <= {"runs-on", "steps", "strategy", "timeout-minutes", "needs", "if"}
        runners = [job["runs-on"]]
        if named := re.fullmatch(r"\$\{\{ matrix\.(\w+) \}\}", job["runs-on"]):
            runners = job["strategy"]["matrix"][named[1]]
        assert all(re.fullmatch(r"ubuntu-\d\d\.04", runner) for runner in runners)
        for step in job["steps"]:
            assert len({"uses", "run"} & set(step)) == 1, step
            assert set(step) <= {"name", "uses", "run", "with", "if", "env"}
            if "uses" in step:
                assert re.fullmatch(r"[\w-]+/[\w-]+@v\d+", step["uses"])
        assert job["steps"][0]["uses"].startswith("actions/checkout@")


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
    assert found == ["run", "compare"]


def test_a_command_that_is_none_of_ours_would_be_found(tmp_path):
    (tmp_path / "bad.sh").write_text("sudo .venv/bin/ina-testbed compare --tolerence 1 a b\n")
    (arguments,) = verbs(tmp_path / "bad.sh")
    with pytest.raises(click.UsageError, match="tolerence"):
        parse(arguments)
    with pytest.raises(click.UsageError, match="comprae"):
        parse(["comprae", "a", "b"])
