"""What is wrong with a user's systems and protocols, where an error of Python would not say it."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import fields
from inspect import signature
from pathlib import Path

from testbed import extensions

_SIMPLE: dict[str, type | tuple[type, ...]] = {"str": str, "int": int, "bool": bool, "tuple": tuple}
"""Annotations of fields whose values are checked, and their types."""


def fault(error: BaseException) -> str | None:
    """``file:line: reason`` if a user's file raised ``error`` or is itself wrong; or None."""
    place = extensions.place_of(error)
    if place is not None:
        return f"{place}: {type(error).__name__}: {error}"
    return next(_faults(), None)


def _faults() -> Iterator[str]:
    """What is wrong with the files of extensions."""
    for root in extensions.roots():
        for package in sorted(root.glob("protocols/*/__init__.py")):
            if not (package.parent / "protocol.py").exists():
                yield f"{package.parent}: found no protocol.py, wanted one with a PROTOCOL"
        paths = (path for kind in ("systems", "protocols") for path in root.glob(f"{kind}/**/*.py"))
        for path in sorted(paths):
            if not path.is_file():
                yield f"{path}: found no regular file, wanted Python code"
                continue
            try:
                tree = ast.parse(path.read_bytes(), str(path))
            except SyntaxError as error:
                yield f"{path}:{error.lineno or 1}: {error.msg}"
            except ValueError as error:
                yield f"{path}:1: {error}"
            else:
                if said := _wrong(path, tree):
                    yield said


def _wrong(path: Path, tree: ast.Module) -> str | None:
    """What is wrong with the SYSTEM or PROTOCOL of a file."""
    if path.parent.name == "systems":
        module, constant, kind = f"testbed.systems.{path.stem}", "SYSTEM", "System"
    elif path.name == "protocol.py":
        module = f"testbed.protocols.{path.parent.name}.protocol"
        constant, kind = "PROTOCOL", "Protocol"
    else:
        return None
    if (loaded := sys.modules.get(module)) is None:
        return None  # the registry has not come so far
    place = f"{path}:{_line(tree, constant)}"
    own = getattr(loaded, constant, None)
    base = getattr(sys.modules[f"testbed.{kind.lower()}s.{kind.lower()}"], kind)
    if own is None and kind == "System":
        return None  # a module that systems share
    if own is None:
        return f"{place}: found no {constant}, wanted one: a {kind}"
    if not isinstance(own, base):
        return f"{place}: found {constant} = {own!r}, wanted a {kind}"
    for field in fields(own):
        value, wanted = getattr(own, field.name), str(field.type)
        if (of := _SIMPLE.get(wanted.partition("[")[0])) and not isinstance(value, of):
            return f"{place}: {constant} has {field.name} = {value!r}, wanted {wanted}"
    try:
        if kind == "System":
            signature(own.plan).bind(None, None)
    except TypeError as error:
        return f"{place}: {constant} has a plan that cannot be called with (job, fabric): {error}"
    return None


def _line(tree: ast.Module, constant: str) -> int:
    """The line where a constant is set; 1 if it is not."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == constant:
            return node.lineno
    return 1
