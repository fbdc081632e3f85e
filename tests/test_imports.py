"""Imports go down the layers in the table of ARCHITECTURE.md, and have no cycles."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import networkx as nx
import pytest

ROOT = Path(__file__).resolve().parents[1]
NATIVE = ROOT / "testbed/switches/native"
LINE = re.compile(r"^\| (\d+) \| ([^|]+) \|", re.MULTILINE)


def layers() -> dict[str, int]:
    """The layer of each folder or module of the package, from the document."""
    found = {}
    for layer, where in LINE.findall((ROOT / "ARCHITECTURE.md").read_text()):
        for name in re.findall(r"`(?:testbed/)?(\w+)(?:/|\.py)`", where):
            found[name] = int(layer)
    return found


LAYERS = layers()


def part(module: str) -> str:
    return module.split(".")[1]


@cache
def imports() -> list[tuple[str, str]]:
    """(module, module that it imports) within the package, with imports for type checkers."""
    found = []
    for path in sorted((ROOT / "testbed").rglob("*.py")):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for node in ast.walk(ast.parse(path.read_text())):
            names = []
            if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
                names = [node.module]
                if node.module == "testbed":
                    names = [
                        f"testbed.{alias.name}" for alias in node.names if alias.name in LAYERS
                    ]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            found += [(module, name) for name in names if name.startswith("testbed.")]
    return found


def test_every_part_of_the_package_has_a_layer():
    parts = {
        path.stem
        for path in (ROOT / "testbed").iterdir()
        if not path.name.startswith("__") and (path.is_dir() or path.suffix == ".py")
    }
    assert parts == set(LAYERS)


@pytest.mark.parametrize("importer", sorted(LAYERS))
def test_imports_run_downwards(importer):
    upwards = [
        f"{module} imports {name}"
        for module, name in imports()
        if module.count(".") and part(module) == importer and LAYERS[part(name)] > LAYERS[importer]
    ]
    assert not upwards


def modules() -> nx.DiGraph:
    """Which module imports which, inside functions, too."""
    graph = nx.DiGraph()
    names = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for path in (ROOT / "testbed").rglob("*.py")
    }
    for module, path in names.items():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
                whole = [f"{node.module}.{alias.name}" for alias in node.names]
                found = {name if name in names else node.module for name in whole}
            elif isinstance(node, ast.Import):
                found = {alias.name for alias in node.names}
            else:
                continue
            graph.add_edges_from((module, name) for name in found & names.keys())
    return graph


def includes() -> nx.DiGraph:
    """Which C file includes which."""
    graph = nx.DiGraph()
    for path in (ROOT / "testbed").rglob("*.[ch]"):
        for name in re.findall(r'^#include "(\S+)"', path.read_text(), re.MULTILINE):
            graph.add_edge(path, (path.parent / name).resolve())
    return graph


def calls() -> nx.DiGraph:
    """Which header of the native runtime calls functions of which.

    Hooks, which packet.h declares and others define, count as functions of packet.h.
    """
    texts = {path: path.read_text() for path in (NATIVE / "runtime").glob("*.h")}
    hooks = set(
        re.findall(r"^static [^({;]*?(\w+)\([^{;]*\);", texts[NATIVE / "runtime/packet.h"], re.M)
    )
    owners = {
        name: path
        for path, text in texts.items()
        for name in re.findall(r"^(?:static|INLINE|STAGE) [^({;=]*?(\w+)\([^{;]*\) \{", text, re.M)
        if name not in hooks
    }
    assert len(owners) > 50
    graph = nx.DiGraph()
    for path, text in texts.items():
        for name in set(re.findall(r"\b(\w+)\(", text)) & owners.keys():
            if owners[name] != path:
                graph.add_edge(path, owners[name])
    return graph


@pytest.mark.parametrize("graph", [modules, includes, calls])
def test_no_import_circle(graph):
    circles = [sorted(map(str, each)) for each in nx.strongly_connected_components(graph())]
    assert not [circle for circle in circles if len(circle) > 1]
