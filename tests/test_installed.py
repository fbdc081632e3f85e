"""The package as users get it: an sdist, and a wheel built from it, installed elsewhere."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest
import tiny
import yaml

import testbed
from testbed.campaign import version

ROOT = Path(__file__).parents[1]

pytestmark = pytest.mark.slow

IMPORTED = """
import sys
from testbed.cli import main
from testbed.campaign.version import code
from testbed.shipped import folder

try:
    main(sys.argv[1:])
except SystemExit as end:
    assert not end.code, end.code
print(code())
for name in ("p4", "workloads", "experiments", "reports"):
    print(folder(name))
for module in list(sys.modules.values()):
    if module.__name__.startswith("testbed"):
        print(module.__file__)
"""


def execute(command: Sequence[object], where: Path) -> str:
    """Run a command in a folder outside the checkout, and return its standard output."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=where, env=clean, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{words}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sdist")
    build = f"from setuptools.build_meta import build_sdist; print(build_sdist({str(folder)!r}))"
    execute([sys.executable, "-c", build], ROOT)
    (made,) = folder.iterdir()
    return made


@pytest.fixture(scope="module")
def wheel(sdist: Path) -> Path:
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
    execute([*pip, "-w", sdist.parent, sdist], sdist.parent)
    (made,) = sdist.parent.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of ``ina-testbed`` and ``python`` in a virtual environment with the wheel.

    It uses the dependencies of the tests: a .pth file adds their folders. Python does not read .pth
    files in these folders, so it does not find the checkout that is installed there.
    """
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder)
    programs = folder / "bin"
    pip = [sys.executable, "-m", "pip", "--python", programs / "python", "install", "-q"]
    execute([*pip, "--no-deps", "--no-index", wheel], folder)
    (own,) = folder.glob("lib/python3*/site-packages")
    theirs = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    (own / "tests.pth").write_text("\n".join(theirs) + "\n")
    return programs


def test_files_of_an_earlier_build_are_not_shipped(tmp_path: Path) -> None:
    gone = tmp_path / "testbed/systems/gone.py"
    gone.parent.mkdir(parents=True)
    gone.touch()
    execute([sys.executable, "setup.py", "-q", "build_py", "--build-lib", tmp_path], ROOT)
    assert gone.with_name("ring.py").exists()
    assert not gone.exists()


@pytest.fixture
def simulated(tmp_path: Path) -> Path:
    """A simulated experiment with a shipped workload."""
    content = tiny.data(tmp_path, backend="simulate", jobs__0__workload="resnet50")
    path = tmp_path / "simulated.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


def test_the_sdist_and_the_wheel_hold_all_that_is_needed_and_no_more(sdist, wheel):
    with tarfile.open(sdist) as archive:
        files = {name.partition("/")[2] for name in archive.getnames()}
    assert {"setup.py", "pyproject.toml", "README.md", "LICENSE"} <= files
    assert {"p4/ina.p4", "p4/build/ina.json", "workloads/resnet50.trace"} <= files
    with zipfile.ZipFile(wheel) as archive:
        packed = set(archive.namelist())
    code = [path for path in (ROOT / "testbed").rglob("*") if path.suffix in {".py", ".c", ".h"}]
    assert {str(path.relative_to(ROOT)) for path in code} == {
        name
        for name in packed
        if name.endswith((".py", ".c", ".h")) and not name.startswith("testbed/shipped/")
    }
    assert "testbed/py.typed" in packed
    assert "testbed/shipped/workloads/resnet50.gradients.npz" in packed
    assert "testbed/report/templates/report.html.j2" in packed


def test_nothing_is_of_the_checkout(programs, simulated, tmp_path):
    assert execute([programs / "ina-testbed", "--version"], tmp_path).split()[-1] == (
        testbed.__version__
    )
    run = ["run", simulated, "-o", tmp_path / "results"]
    code, *places = execute([programs / "python", "-c", IMPORTED, *run], tmp_path).splitlines()[1:]
    # Rows of an installed package and of its checkout have the same version.
    assert code == version.code()
    assert len(places) > 50
    for place in places:
        assert Path(place).is_relative_to(programs.parent), place
    (directory,) = (tmp_path / "results" / "tiny").iterdir()
    assert (directory / "report.html").exists()


def test_verbs_that_need_shipped_files(programs, simulated, tmp_path):
    verb = programs / "ina-testbed"
    assert execute([verb, "validate", simulated], tmp_path).endswith("tiny: ok, 1 cell\n")
    assert "bert-base: " in execute([verb, "trace", "show", "bert-base"], tmp_path)
    schema = (ROOT / "experiments" / "schema.json").read_text()
    assert execute([verb, "schema"], tmp_path) == schema
    assert "\nina: [" in execute([verb, "place", simulated, "--budget", "1"], tmp_path)
    said = execute([verb, "claims", "topoopt-links", "-o", "claims"], tmp_path)
    assert said.startswith("topoopt-links: ")
    assert "topoopt-over-fat-tree" in (tmp_path / "claims" / "claims.md").read_text()


@pytest.mark.root
def test_an_emulated_run(programs, tmp_path):
    run = ["run", tiny.file(tmp_path), "-o", tmp_path / "results"]
    execute([programs / "ina-testbed", *run], tmp_path)
    (table,) = (tmp_path / "results" / "tiny").glob("*/results.csv")
    (row,) = csv.DictReader(table.read_text().splitlines())
    assert row["verified"] == "True"
    assert row["switch_target"] == "native"
