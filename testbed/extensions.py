"""Users' own systems and protocols, outside the package.

A folder of extensions holds ``systems/<name>.py`` and ``protocols/<name>/protocol.py``, as the
package does. ``INA_TESTBED_EXTENSIONS`` lists such folders, separated by colons; if it is not set,
there is one: ``extensions`` in the current directory, if that exists.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from traceback import extract_tb
from types import ModuleType

VARIABLE = "INA_TESTBED_EXTENSIONS"
FOLDER = "extensions"
_SYSTEM = re.compile(r"^SYSTEM\b", re.MULTILINE)


class Broken(ValueError):
    """A user's file cannot be used; the message has its place and the reason."""


def roots() -> list[Path]:
    """The folders of extensions. Raises Broken if a listed one does not exist."""
    if not is_listed():
        here = Path(FOLDER).absolute()
        return [here] if here.is_dir() else []
    found = [Path(each).absolute() for each in os.environ[VARIABLE].split(os.pathsep) if each]
    for each in found:
        if not each.is_dir():
            raise Broken(f"{VARIABLE}: found {each}, wanted a folder; correct the variable")
    return found


def is_listed() -> bool:
    """Whether ``INA_TESTBED_EXTENSIONS`` is set."""
    return VARIABLE in os.environ


def homes(kind: str) -> list[str]:
    """The folders of extensions of a ``kind``: systems or protocols."""
    return [str(root / kind) for root in roots() if (root / kind).is_dir()]


def searched(kind: str) -> str:
    """Where users' own systems or protocols were searched for, as the end of a message."""
    found = homes(kind)
    if found:
        text = f"your own {kind} are those in {', '.join(found)}"
        without = [*_without_system(found)] if kind == "systems" else []
        return f"{text}, where {', '.join(without)} has no SYSTEM" if without else text
    place = f"folder {kind} in those of {VARIABLE}" if is_listed() else f"{FOLDER}/{kind} here"
    return f"there are no {kind} of your own: found no {place}"


def _without_system(homes: Iterable[str]) -> Iterator[str]:
    """The files that set no SYSTEM: modules that systems share, or systems with a mistake."""
    for home in homes:
        for module in iter_modules([home]):
            path = Path(home, f"{module.name}.py")
            if path.is_file() and not _SYSTEM.search(path.read_text("utf-8", "replace")):
                yield path.name


def load(module: str) -> ModuleType:
    """Import a module. Raises Broken if that fails in a user's file."""
    try:
        return import_module(module)
    except Exception as error:
        if place := place_of(error):
            raise Broken(f"{place}: {type(error).__name__}: {error}") from error
        raise


def check(own: Path, path: Iterable[str]) -> None:
    """Raise Broken if a user's module has the same name as one in the package's folder ``own``,
    which would hide it. ``path`` lists all folders of the registry."""
    taken = {module.name for module in iter_modules([str(own)])}
    for home in path:
        for module in iter_modules([home]) if Path(home) != own else ():
            if module.name in taken:
                raise Broken(
                    f"{home}/{module.name}: found the name of a built-in {own.name.rstrip('s')},"
                    " wanted another one; rename it"
                )


def place_of(error: BaseException) -> str | None:
    """``file:line`` of the innermost place in a user's file; None if ``error`` was not raised in
    one."""
    if isinstance(error, SyntaxError) and error.filename and _is_users(error.filename):
        return f"{error.filename}:{error.lineno}:{error.offset}"
    for frame in reversed(extract_tb(error.__traceback__)):
        if _is_users(frame.filename):
            return f"{frame.filename}:{frame.lineno}"
    return None


def _is_users(file: str) -> bool:
    return any(Path(file).is_relative_to(root) for root in roots())


def files() -> Iterator[tuple[str, Path]]:
    """Each source file of the extensions, with its path below its folder."""
    for root in roots():
        for kind in ("systems", "protocols"):
            for path in sorted((root / kind).rglob("*")):
                if path.suffix in {".py", ".c", ".h"} and path.is_file():
                    yield str(path.relative_to(root)), path
