"""No code outside a protocol's own folder depends on the protocol's name or number."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from testbed import protocols

PACKAGE = Path(protocols.__file__).parents[1]
PROTOCOLS = set(protocols.registry)
ENGINE = sorted((PACKAGE / "hosts" / "engine").glob("*.[ch]"))
TOLD = {"examples", "description", "help"}  # text for people


@cache
def everything() -> dict[str, ast.Module]:
    found = {path.relative_to(PACKAGE).as_posix(): path for path in PACKAGE.rglob("*.py")}
    return {name: ast.parse(path.read_text()) for name, path in found.items()}


def modules(*homes: str) -> dict[str, ast.Module]:
    """All modules of the package except those in ``homes``."""
    return {name: tree for name, tree in everything().items() if not name.startswith(homes)}


def literals(tree: ast.AST) -> Iterator[str]:
    """The strings that code uses, except text for readers."""
    if isinstance(tree, ast.keyword) and tree.arg in TOLD:
        return
    if isinstance(tree, ast.Expr) and isinstance(tree.value, ast.Constant):
        return
    if isinstance(tree, ast.Constant) and isinstance(tree.value, str):
        yield tree.value
    for child in ast.iter_child_nodes(tree):
        yield from literals(child)


def decisive(tree: ast.AST) -> Iterator[ast.AST]:
    """The values that a module compares or looks up, which may be a hidden branch."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            yield from (node.left, *node.comparators)
        elif isinstance(node, ast.Dict):
            yield from (key for key in node.keys if key is not None)
        elif isinstance(node, ast.MatchValue):
            yield node.value
        elif isinstance(node, ast.Subscript) and "registry" in ast.unparse(node.value):
            yield node.slice


def named_by(tree: ast.AST) -> set[str]:
    """The protocols on whose name or number a module branches."""
    found: set[str] = set()
    for part in decisive(tree):
        found |= PROTOCOLS & set(literals(part))
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            asks = any(isinstance(side, ast.Attribute) and side.attr == "number" for side in sides)
            if asks and "protocol" in ast.unparse(node):
                found.add(ast.unparse(node))
    return found


def imported_by(tree: ast.AST) -> set[str]:
    """The protocols that a module imports. The code that runs other modules of a protocol's folder,
    such as the gate of parameters, may import these."""
    modules = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return {name for name in PROTOCOLS if f"testbed.protocols.{name}.protocol" in modules}


ELSEWHERE = modules("protocols/", "systems/")


@pytest.mark.parametrize("name", ELSEWHERE)
def test_a_protocol_is_known_in_its_folder_alone(name):
    assert not named_by(ELSEWHERE[name])
    assert not imported_by(ELSEWHERE[name])


@pytest.mark.parametrize("name", modules("protocols/", *set(ELSEWHERE)))
def test_a_system_names_its_protocol_when_it_builds_a_tree(name):
    tree = modules()[name]
    chosen = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("testbed.protocols.")
        for alias in node.names
    }
    used = {
        node.id for part in decisive(tree) for node in ast.walk(part) if isinstance(node, ast.Name)
    }
    assert not chosen & used, "it decides on a protocol"


@pytest.mark.parametrize("name", sorted(PROTOCOLS))
def test_protocols_do_not_decide_on_one_another(name):
    for module, tree in modules(*(f"protocols/{each}/" for each in PROTOCOLS)).items():
        if module.startswith("protocols/"):
            assert not imported_by(tree), module
            assert name not in set(literals(tree)), module


@pytest.mark.parametrize("path", ENGINE, ids=lambda path: path.name)
def test_the_engine_names_no_protocol(path):
    words = set(re.findall(r"\w+", re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S).lower()))
    assert not words & {*protocols.on_trees(), "style"}


@pytest.mark.parametrize(
    "text",
    [
        "if tree.protocol.name == 'atp': pass",
        "sizes = {'netreduce': 1}",
        "match name:\n    case 'rack': pass",
        "if role.protocol.number == 2: pass",
        "protocol = registry['chunks']",
        "if name in ('switchml', 'rack'): pass",
    ],
)
def test_a_branch_would_be_found(text):
    assert named_by(ast.parse(text))


def test_an_import_would_be_found():
    text = "from testbed.protocols.atp.protocol import PROTOCOL as ATP"
    assert imported_by(ast.parse(text)) == {"atp"}
