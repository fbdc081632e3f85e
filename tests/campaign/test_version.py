"""The version of a row depends on the code that a cell may run, and on no other code."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest
from tiny import experiment, file

from testbed.campaign import version
from testbed.campaign.cell import run_cell
from testbed.experiment.cells import Cell
from testbed.experiment.schema import Experiment
from testbed.placement.deployments import Deployments
from testbed.studies.torture.cases import world
from testbed.systems import home, registry


def files(package: Path, systems: Collection[str]) -> list[Path]:
    """The files in ``package`` that define ``systems``."""
    homes = [path for path in map(home, systems) if path]
    return [package / path.relative_to(version._PACKAGE) for path in homes]


def digest_of(
    package: Path,
    compiled: Path,
    backend: str | None = None,
    systems: Collection[str] = registry,
    plans: bool = True,
) -> str:
    return version.digest_of(package, compiled, backend, files(package, systems), plans)


@pytest.fixture(scope="module")
def copied(tmp_path_factory) -> Path:
    package = tmp_path_factory.mktemp("copy") / "testbed"
    shutil.copytree(version._PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    return package


@pytest.fixture
def digests(copied, tmp_path):
    """The digests before and after a line is appended to a file."""

    def digests(
        name: str,
        text: str = "\nchanged = 1\n",
        backend: str | None = None,
        systems: Collection[str] = registry,
        plans: bool = True,
    ) -> tuple[str, str]:
        path = copied / name
        content = path.read_bytes() if path.exists() else None
        before = digest_of(copied, tmp_path, backend, systems, plans)
        path.write_bytes((content or b"") + text.encode())
        after = digest_of(copied, tmp_path, backend, systems, plans)
        if content is None:
            path.unlink()
        else:
            path.write_bytes(content)
        return before, after

    return digests


def a_change(name: str) -> str:
    """Text that makes a file run something else."""
    return "\nint changed;\n" if name.endswith(".c") else "\nchanged = 1\n"


@pytest.mark.parametrize(
    "name",
    [
        "plan/program.py",
        "plan/cost.py",
        "systems/rina.py",
        "systems/__init__.py",
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


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("extensions.py", False),
        ("located.py", False),
        ("experiment/findings.py", False),
        ("experiment/sweep.py", False),
        ("systems/rina.py", False),
        ("systems/racks.py", False),
        ("switches/entries.py", False),
        ("topology/placement.py", False),
        ("deployment/places.py", False),
        ("experiment/schema.py", True),
        ("experiment/fields.py", True),
        ("systems/system.py", True),
        ("protocols/atp/protocol.py", True),
        ("deployment/deploy.py", True),
        ("plan/cost.py", True),
        ("hosts/interpreter.py", True),
    ],
)
def test_what_only_prepares_is_not_among_the_code_that_runs_a_deployment(name, counts, digests):
    before, after = digests(name, plans=False)
    assert (before != after) == counts


def test_a_string_that_is_used_makes_another_version(digests):
    before, after = digests("plan/cost.py", 'used = (\n    """Text."""\n)\n')
    assert before != after


def test_c_and_compiled_p4_make_another_version(copied, digests, tmp_path):
    source = next(copied.rglob("*.c"))
    before, after = digests(str(source.relative_to(copied)))
    assert before != after
    (tmp_path / "ina.json").write_text("{}")
    assert digest_of(copied, tmp_path) != before


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


@pytest.mark.parametrize(
    ("name", "backend", "system"),
    [
        ("systems/rina.py", "packet", "ring"),
        ("systems/a_new_one.py", "packet", "rina"),
        ("protocols/netreduce/protocol.py", "packet", "atp"),
        ("protocols/netreduce/netreduce.c", "emulate", "atp"),
        ("protocols/reference.py", "emulate", "atp"),  # only annotations need it
        ("backends/emulation/network.py", "packet", "atp"),
        ("backends/emulation/rates.py", "packet", "atp"),
        ("backends/packet/loop.py", "emulate", "atp"),
        ("backends/packet/core/simulation.c", "simulate", "atp"),
        ("backends/packet/core/simulation.c", "emulate", "atp"),
    ],
)
def test_what_other_cells_need_does_not(name, backend, system, digests):
    before, after = digests(name, a_change(name), backend, [system])
    assert before == after


@pytest.mark.parametrize(
    ("name", "backend", "system"),
    [
        ("systems/ring.py", "packet", "rina"),
        ("protocols/atp/atp.c", "packet", "grid"),
        ("protocols/atp/protocol.py", "simulate", "a2tp"),
        ("hosts/engine/window.c", "packet", "atp"),
        ("hosts/engine/window.c", "emulate", "atp"),
        ("backends/emulation/network.py", "emulate", "ring"),
        ("backends/flow/simulate.py", "packet", "ring"),
    ],
)
def test_what_a_cell_needs_indirectly_makes_another_version(name, backend, system, digests):
    before, after = digests(name, a_change(name), backend, [system])
    assert before != after


def test_a_system_that_an_option_names_counts(tmp_path):
    jobs = {"jobs__0__system": "osp", "jobs__0__options": {"carrier": "atp"}}
    assert {*version._systems(experiment(tmp_path, **jobs))} == {"osp", "atp"}


@contextmanager
def calls(files: set[Path]) -> Iterator[None]:
    """Adds the files of the package whose functions are called."""
    names: set[str] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            names.add(frame.f_code.co_filename)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(before)
        files |= {path for path in map(Path, names) if path.is_relative_to(version._PACKAGE)}


@pytest.mark.parametrize("backend", ["simulate", "packet"])
@pytest.mark.parametrize("system", registry)
def test_a_cell_runs_no_other_code(system, backend, tmp_path):
    """Every function of the package that a cell calls is in a file that its version has. Once its
    deployment is made, the only preparing code that it calls derives the tables, whose digest rows
    have, and lists users' files for the row's version."""
    data, _ = world(system, 1)
    asked = Experiment.model_validate(
        {**data, "backend": backend, "emulation": {"scale": data["emulation"]["scale"]}}
    )
    planned: set[Path] = set()
    ran: set[Path] = set()
    with calls(planned):
        deployment = Deployments().of(asked)
    with calls(ran):
        run_cell(Cell("cell", asked, {}, 0), deployment, tmp_path)
    own = planned | ran
    systems = files(version._PACKAGE, {*version._systems(asked)})
    known = {*version.modules(version._PACKAGE, backend, systems).values()}
    assert len(own) > 20
    assert own <= known
    preparing = {
        path
        for name, path in version.modules(version._PACKAGE, backend, systems).items()
        if version._PREPARING.match(name)
    }
    assert planned & preparing
    assert {path.name for path in ran & preparing} <= {"entries.py", "extensions.py"}


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
    every = files(version._PACKAGE, registry)
    assert imported <= version.modules(version._PACKAGE, None, every).keys()
