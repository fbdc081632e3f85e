"""What is wrong with users' systems and protocols, beyond what their registries refuse.

The registries are code of cells. What only a message needs is here, so that a change to it makes no
row stale.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import fields
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from inspect import signature, unwrap
from pathlib import Path
from typing import Any, get_origin, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError

from testbed import extensions
from testbed.plan.shape import misshapen

MARKERS = ".,ov^<>12348spP*hH+xXDd|_"
"""matplotlib's markers of one character."""
_KINDS = {
    "SYSTEM": ("testbed.systems.system", "System"),
    "PROTOCOL": ("testbed.protocols.protocol", "Protocol"),
    "MODEL": ("testbed.protocols.reference", "Model"),
}
"""The class of each constant."""
_OF_PROTOCOLS = {"protocol.py": "PROTOCOL", "reference.py": "MODEL"}
_CHECKED = "is_checked"
"""Marks the plan functions whose plans are checked."""
_NAME = re.compile("[A-Za-z0-9][A-Za-z0-9_-]*")
_LONGEST_TITLE = 60
_COLOUR = re.compile("#[0-9a-fA-F]{6}")
_ANY_CLASS = ConfigDict(arbitrary_types_allowed=True)


def check() -> None:
    """Raise Broken, with ``file:line``, if something is wrong with a file of the extensions. From
    then on, the plans of users' systems are checked, and so is what the methods of users' protocols
    return."""
    for said in _faults():
        raise extensions.Broken(said)
    # Not before their files are known to be right.
    from testbed import protocols
    from testbed.deployment import users_protocols
    from testbed.systems import home, registry

    for name in users_systems():
        system = registry[name]
        if not hasattr(system.plan, _CHECKED):
            object.__setattr__(system, "plan", _checked(system, _place(system.plan, home(name))))
    users = {path for _, path in extensions.files()}
    for folder in protocols.folders() if users else ():
        if folder / "protocol.py" in users:
            users_protocols.check(protocols.registry[folder.name], folder)


def users_systems() -> frozenset[str]:
    """The registered systems that are from files of extensions."""
    users = {path for _, path in extensions.files()}
    if not users:
        return frozenset()
    from testbed.systems import home, registry

    return frozenset(name for name in registry if home(name) in users)


def _place(plan: Any, path: Path | None) -> str:
    """``file:line`` of a plan function, which may be wrapped or a partial one; the first line of
    the file if it is another callable."""
    plan = unwrap(plan.func if isinstance(plan, partial) else plan)
    code = getattr(plan, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code else f"{path}:1"


def _checked(system: Any, place: str) -> Any:
    """A system's plan function that raises ValueError, with its ``place``, instead of returning
    what is no plan of the job."""
    own = system.plan

    def plan(job: Any, fabric: Any) -> Any:
        try:
            found = own(job, fabric)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            where = extensions.place_of(error)
            if isinstance(error, ValueError) and where:
                raise ValueError(f"{where}: {error}".removesuffix(": ")) from error
            if isinstance(error, ValueError) or (isinstance(error, Exception) and where):
                raise
            # It would end the verb, or has no line of the user's in its traceback.
            raise ValueError(f"{where or place}: {type(error).__name__}: {error}") from error
        if said := misshapen(found, system.name, job.workers, fabric.hosts, fabric.ina):
            raise ValueError(f"{place}: plan: {said}")
        return found

    setattr(plan, _CHECKED, True)
    return plan


def fault(error: BaseException) -> str | None:
    """``file:line: reason`` if a user's file raised ``error`` or is itself wrong; or None."""
    place = extensions.place_of(error)
    if place is not None:
        return f"{place}: {type(error).__name__}: {error}"
    if isinstance(error, ModuleNotFoundError) and error.name:
        *package, protocol, module = error.name.split(".")
        for root in extensions.roots() if package == ["testbed", "protocols"] else ():
            if (folder := root / "protocols" / protocol).is_dir():
                return f"{folder}: found no {module}.py, wanted one"
    return next(_faults(), None)


def _faults() -> Iterator[str]:
    """What is wrong with the files of extensions."""
    for root in extensions.roots():
        for package in sorted(root.glob("protocols/*/__init__.py")):
            if not (package.parent / "protocol.py").exists():
                yield f"{package.parent}: found no protocol.py, wanted one with a PROTOCOL"
        for protocol in sorted(root.glob("protocols/*/protocol.py")):
            if not (protocol.parent / "__init__.py").exists():
                yield f"{protocol.parent}: found no __init__.py, wanted one; add an empty file"
        paths = (path for kind in ("systems", "protocols") for path in root.glob(f"{kind}/**/*.py"))
        for path in sorted(paths):
            if not path.is_file():
                yield f"{path}: found no regular file, wanted Python code"
                continue
            try:
                tree = ast.parse(path.read_text("utf-8-sig"), str(path))
            except UnicodeDecodeError as error:
                line = 1 + path.read_bytes()[: error.start].count(b"\n")
                yield f"{path}:{line}: found no UTF-8, wanted it; save the file as UTF-8"
            except SyntaxError as error:
                yield f"{path}:{error.lineno or 1}: {error.msg}"
            except ValueError as error:
                yield f"{path}:1: {error}"
            else:
                if said := _wrong(path, tree):
                    yield said


def _wrong(path: Path, tree: ast.Module) -> str | None:
    """What is wrong with the SYSTEM, PROTOCOL or MODEL of a file."""
    if path.parent.name == "systems":
        home, package, module, constant = path, "testbed.systems", path.stem, "SYSTEM"
    elif path.name in _OF_PROTOCOLS:
        home, package = path.parent, "testbed.protocols"
        module, constant = f"{home.name}.{path.stem}", _OF_PROTOCOLS[path.name]
    else:
        return None
    if home.stem in names_of(package):
        return f"{home}: found a name that the testbed uses itself, wanted another; rename it"
    if (loaded := sys.modules.get(f"{package}.{module}")) is None:
        return None  # not imported yet
    kind = _KINDS[constant]
    place = f"{path}:{_line(tree, constant)}"
    own = getattr(loaded, constant, None)
    if own is None and constant == "SYSTEM":
        return None  # a module that systems share
    if own is None:
        return f"{place}: found no {constant}, wanted one: a {kind[-1]}"
    if not isinstance(own, _class(*kind)):
        return f"{place}: found {constant} = {own!r}, wanted a {kind[-1]}"
    said = next(wrong_fields(own, constant), None) or _same_looks(own, constant)
    if constant == "PROTOCOL" and said is None:
        from testbed.deployment import users_protocols

        said = next(users_protocols.wrong(own, home), None)
    return said and f"{place}: {constant} has {said}"


def _same_looks(own: Any, constant: str) -> str | None:
    """Figures and tables tell systems apart by these, so no two may share one."""
    if constant != "SYSTEM":
        return None
    for name, module in [*sys.modules.items()]:
        other = getattr(module, constant, None) if name.startswith("testbed.systems.") else None
        if not isinstance(other, type(own)) or other is own:
            continue
        for field in ("title", "colour"):
            value = getattr(own, field)
            if value == getattr(other, field):
                return f"{field} = {value!r}, which {other.name} has, wanted another"
    return None


def names_of(package: str) -> tuple[str, ...]:
    """The names that a registry's module uses. A submodule of such a name would replace them."""
    spec = find_spec(package)
    code = spec and spec.loader and getattr(spec.loader, "get_code")(package)  # noqa: B009
    return code.co_names if code else ()


def wrong_fields(own: Any, constant: str) -> Iterator[str]:
    """``name = value, wanted type`` for each field with a wrong value of a SYSTEM, PROTOCOL or
    MODEL."""
    module, name = _KINDS[constant]
    base = _class(module, name)
    if constant == "PROTOCOL" and isinstance(own, trees := _class(module, "TreeProtocol")):
        base = trees
    hints = get_type_hints(base)
    for field in fields(base):
        value = getattr(own, field.name)
        if not _is_a(value, hints[field.name]):
            yield f"{field.name} = {value!r}, wanted {field.type}"
    if constant == "SYSTEM":
        yield from _wrong_in_figures(own)
        yield from _wrong_options(own.options)
        fewest, most = own.servers
        if not 0 <= fewest <= most:
            yield f"servers = {own.servers!r}, wanted the fewest and the most, from 0 on"
        try:
            signature(own.plan).bind(None, None)
        except TypeError as error:
            yield f"a plan that cannot be called with (job, fabric): {error}"


def _wrong_options(options: Any) -> Iterator[str]:
    fields_of = options.model_fields
    if lacking := [name for name, field in fields_of.items() if field.is_required()]:
        yield f"options without a default ({', '.join(lacking)}), wanted one for each"
        return
    defaults = {
        name: field.get_default(call_default_factory=True) for name, field in fields_of.items()
    }
    try:
        options.model_validate(defaults)
    except ValidationError as error:
        for each in error.errors():
            what = f"the option {each['loc'][0]}" if each["loc"] else "options"
            yield f"{what} = {each['input']!r} by default, wanted another: {each['msg']}"
    except Exception as error:  # pydantic builds the model now, from what its author wrote
        yield f"options that cannot be built ({str(error).splitlines()[-1].strip()})"


def _wrong_in_figures(system: Any) -> Iterator[str]:
    if not _NAME.fullmatch(system.name):
        yield f"name = {system.name!r}, wanted letters, digits, - and _"
    if not system.title.isprintable() or not 0 < len(system.title) <= _LONGEST_TITLE:
        wanted = f"1 to {_LONGEST_TITLE} characters that can be printed"
        yield f"title = {system.title!r:.60}, wanted {wanted}"
    if not _COLOUR.fullmatch(system.colour):
        yield f"colour = {system.colour!r}, wanted a colour such as '#1f77b4'"
    if len(system.marker) != 1 or system.marker not in MARKERS:
        yield f"marker = {system.marker!r}, wanted one of {' '.join(MARKERS)}"


def _class(module: str, name: str) -> Any:
    """A class of the registries. After an error in a user's file its package cannot be imported
    again."""
    return getattr(sys.modules.get(module) or import_module(module), name)


def _is_a(value: object, wanted: Any) -> bool:
    if isinstance(wanted, type) and get_origin(wanted) is None:
        return isinstance(value, wanted)
    try:
        TypeAdapter(wanted, config=_ANY_CLASS).validate_python(value, strict=True)
    except ValidationError:
        return False
    return True


def _line(tree: ast.Module, constant: str) -> int:
    """The line where a constant is set; 1 if it is not."""
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                if name == constant:
                    return node.lineno
    return 1
