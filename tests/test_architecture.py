"""What ARCHITECTURE.md says about where things are is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from testbed.protocols import on_trees

ROOT = Path(__file__).resolve().parents[1]
LAYERING, _, TABLE = (ROOT / "ARCHITECTURE.md").read_text().partition("## Where to find what")
LAYERS = re.findall(r"^\| \d+ \| (.*?) \| (.*) \|$", LAYERING, re.MULTILINE)
NO_MODULES = {"ina", "new", "spread", "train"}
"""Names in the table of layers that users give: of a backend, a verb, a routing and an extra."""
PLACES = re.findall(r"`((?:testbed|p4)/[\w./]+)`(?: \(`(\w+)`\))?", TABLE.partition("\n## ")[0])


@pytest.mark.parametrize(("place", "name"), PLACES)
def test_what_the_table_names_is_there(place, name):
    paths = [ROOT / place.replace("NAME", protocol) for protocol in on_trees()]
    found = [path for path in paths if path.exists()]
    assert found, place
    if found[0].is_dir():
        found = [path for path in found[0].glob("*.py") if path.name != "__init__.py"]
    assert any(re.search(rf"\b{name}\b", path.read_text()) for path in found), name


def test_the_table_is_read():
    assert len(PLACES) > 15
    assert ("testbed/machine/verdict.py", "IDLE_FLOOR") in PLACES


@pytest.mark.parametrize(("where", "contents"), LAYERS)
def test_the_modules_that_a_layer_names_are_there(where, contents):
    folders = [ROOT / name for name in re.findall(r"`(testbed/\w+)/`", where)]
    there = {path.stem for folder in folders for path in folder.rglob("*")}
    assert not folders or set(re.findall(r"`(\w+)/?`", contents)) - there <= NO_MODULES


def test_the_layers_are_read():
    assert len(LAYERS) > 10
