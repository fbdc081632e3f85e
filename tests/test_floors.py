"""Imports run downwards only: ARCHITECTURE.md's table of floors is held against the code."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LINE = re.compile(r"^\| (\d) \| ([^|]+) \|", re.MULTILINE)


def floors() -> dict[str, int]:
    """The floor of each folder or module of the package, as the document says."""
    found = {}
    for floor, where in LINE.findall((ROOT / "ARCHITECTURE.md").read_text()):
        for name in re.findall(r"`(?:testbed/)?(\w+)(?:/|\.py)`", where):
            found[name] = int(floor)
    return found


FLOORS = floors()


def part(module: str) -> str:
    return module.split(".")[1]


def imports() -> list[tuple[str, str]]:
    """(module, module that it imports) within the package, type checkers' imports as well."""
    found = []
    for path in sorted((ROOT / "testbed").rglob("*.py")):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for node in ast.walk(ast.parse(path.read_text())):
            names = []
            if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
                names = [node.module]
                if node.module == "testbed":
                    names = [f"testbed.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            found += [(module, name) for name in names if name.startswith("testbed.")]
    return found


def test_every_part_of_the_package_has_a_floor():
    parts = {path.stem for path in (ROOT / "testbed").iterdir() if not path.name.startswith("__")}
    assert parts == set(FLOORS)


@pytest.mark.parametrize("importer", sorted(FLOORS))
def test_imports_run_downwards(importer):
    upwards = [
        f"{module} imports {name}"
        for module, name in imports()
        if module.count(".") and part(module) == importer and FLOORS[part(name)] > FLOORS[importer]
    ]
    assert not upwards
