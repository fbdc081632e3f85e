"""The version of a row depends on the code that a cell may run, and on no other code."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tiny import file

from testbed.campaign import version


@pytest.fixture(scope="module")
def copied(tmp_path_factory) -> Path:
    package = tmp_path_factory.mktemp("copy") / "testbed"
    shutil.copytree(version._PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    return package


@pytest.fixture
def digests(copied, tmp_path):
    """The digests before and after a line is appended to a file."""

    def digests(name: str, text: str = "\nchanged = 1\n") -> tuple[str, str]:
        path = copied / name
        content = path.read_bytes() if path.exists() else None
        before = version.digest_of(copied, tmp_path)
        path.write_bytes((content or b"") + text.encode())
        after = version.digest_of(copied, tmp_path)
        if content is None:
            path.unlink()
        else:
            path.write_bytes(content)
        return before, after

    return digests


@pytest.mark.parametrize(
    "name",
    [
        "plan/program.py",
        "plan/cost.py",
        "systems/rina.py",
        "systems/__init__.py",
        "systems/a_new_one.py",
        "backends/flow/channels.py",
        "backends/emulation/network.py",
        "machine/verdict.py",
        "campaign/measurement.py",
        "results.py",
    ],
)
def test_what_a_cell_runs_makes_another_version(name, digests):
    before, after = digests(name)
    assert before != after


def test_a_string_that_is_used_makes_another_version(digests):
    before, after = digests("plan/cost.py", 'used = (\n    """Text."""\n)\n')
    assert before != after


def test_c_and_compiled_p4_make_another_version(copied, digests, tmp_path):
    source = next(copied.rglob("*.c"))
    before, after = digests(str(source.relative_to(copied)))
    assert before != after
    (tmp_path / "ina.json").write_text("{}")
    assert version.digest_of(copied, tmp_path) != before


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("plan/cost.py", "\n# A comment.\n    # Another.\n"),
        ("plan/cost.py", '"""Of an attribute.\n\nIn three lines."""\n'),
        ("hosts/engine/engine.c", "\n/* A comment\n   of two lines. */\n// Another.\n"),
    ],
)
def test_comments_and_docstrings_do_not(name, text, copied, digests):
    assert (copied / name).exists()
    before, after = digests(name, text)
    assert before == after


@pytest.mark.parametrize(
    "name",
    [
        "__init__.py",
        "api.py",
        "cli/__init__.py",
        "report/data.py",
        "studies/comparison.py",
        "campaign/resume.py",
        "campaign/dask.py",
        "machine/doctor.py",
        "machine/capacity.py",
        "torch/core/reduction.c",
    ],
)
def test_what_no_cell_needs_does_not(name, digests):
    before, after = digests(name)
    assert before == after


def test_what_a_cell_imports_is_known_before_it_does(tmp_path):
    """This includes imports inside functions, and those of a registry."""
    script = """
import json, sys
from pathlib import Path
from testbed.experiment.load import load
experiment = load(Path(sys.argv[1]))
before = set(sys.modules)
from testbed.campaign.cell import run_cell
from testbed.experiment.cells import expand
from testbed.placement.deployments import Deployments
(cell,) = expand(experiment)
run_cell(cell, Deployments().of(cell.experiment), Path(sys.argv[2]))
print(json.dumps([name for name in set(sys.modules) - before if name.startswith("testbed.")]))
"""
    words = [sys.executable, "-c", script, str(file(tmp_path, backend="simulate")), str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    imported = set(json.loads(done.stdout))
    assert "testbed.systems.atp" in imported
    assert imported <= version.modules().keys()
