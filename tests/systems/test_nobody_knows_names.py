"""No code outside systems/ uses a system's name: a system declares what others need to know."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import testbed
from testbed.systems import registry

ROOT = Path(testbed.__file__).parent
# Some protocols have the same name as their system.
ELSEWHERE = ("systems", "protocols")


def literals(tree: ast.AST) -> Iterator[str]:
    """The strings of a module, except examples, which the schema shows."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.keyword) and node.arg == "examples":
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        yield from literals(node)


def test_no_system_is_named_outside_systems():
    files = [
        path for path in ROOT.rglob("*.py") if path.relative_to(ROOT).parts[0] not in ELSEWHERE
    ]
    assert len(files) > 100
    found = {
        (path.relative_to(ROOT).as_posix(), text)
        for path in files
        for text in literals(ast.parse(path.read_text()))
        if text in registry
    }
    assert not found


def test_the_search_finds_names():
    source = 'KNOWN = ("ps", f"{x}")\nField(examples=["ring"], default="atp")\nif a == "grid": ...'
    found = [text for text in literals(ast.parse(source)) if text in registry]
    assert found == ["ps", "atp", "grid"]
