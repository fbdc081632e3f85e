"""A run records its software and hardware, and nothing private about the machine."""

from __future__ import annotations

import json
import os
import platform
import re
import socket
import subprocess
from pathlib import Path

import pytest

from testbed import provenance


def test_environment_has_the_facts() -> None:
    facts = provenance.environment()
    assert facts["python"] == platform.python_version()
    assert re.fullmatch(r"\d+(\.\w+)+", facts["versions"]["numpy"])
    assert facts["kernel"] and facts["cpu"]
    assert facts["cores"] >= 1
    assert facts["memory_bytes"] > 2**28
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", facts["started_at"])
    assert {"git_commit", "git_dirty", "bmv2", "p4c", "command"} <= set(facts)


def test_environment_names_neither_the_machine_nor_its_directories() -> None:
    text = json.dumps(provenance.environment())
    assert str(Path.cwd()) not in text
    assert str(Path.home()) + "/" not in text
    assert f'"{socket.gethostname()}"' not in text


def test_command_keeps_no_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["/opt/bin/tool", "run", f"{tmp_path}/a/x.yaml", "--out=/secret/there", "-n", "3"]
    assert provenance.command(words) == "tool run a/x.yaml --out=there -n 3"
    module = ["/opt/lib/testbed/__main__.py", "validate", "x.yaml"]
    assert provenance.command(module) == "python -m testbed validate x.yaml"


def test_source_tells_the_commit_and_whether_it_was_changed(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        identity = ["-c", "user.name=t", "-c", "user.email=t@t"]
        own = os.environ | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
        subprocess.run(["git", "-C", str(tmp_path), *identity, *words], env=own, check=True)

    assert provenance._source(tmp_path / "none") == {"git_commit": None, "git_dirty": None}
    git("init", "-q")
    (tmp_path / "file").write_text("1")
    git("add", "file")
    git("commit", "-q", "-m", "first")
    clean = provenance._source(tmp_path)
    assert re.fullmatch("[0-9a-f]{40}", clean["git_commit"])
    assert clean["git_dirty"] is False
    (tmp_path / "file").write_text("2")
    assert provenance._source(tmp_path) == {**clean, "git_dirty": True}
