"""What the methods of users' protocols return, checked wherever the testbed calls them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, wraps
from inspect import signature
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from testbed import extensions
from testbed.deployment.errors import DeploymentError
from testbed.protocols.protocol import Protocol, TreeProtocol
from testbed.protocols.roles import Member, Neighbours, Root
from testbed.protocols.tables import TableEntry

PRIORITIES = range(8)
NUMBERS = range(200, 256)
"""The numbers of users' protocols in table entries and packets."""
_OWN_NUMBER = re.compile(
    r"^\s*#\s*define\s+OWN_NUMBER\s+(0[xX][0-9a-fA-F]+|[1-9]\d*)\b", re.MULTILINE
)

Wrong = Callable[[Any, tuple[Any, ...]], str | None]
"""What was wanted instead of a method's result, which depends on its arguments; None if right."""


def check(protocol: Protocol, home: Path) -> None:
    """Let the methods that the user's ``protocol`` in the folder ``home`` overrides raise
    DeploymentError, with their place, for what they must not return, and for what they raise."""
    for name, wrong in _RESULTS.items():
        own: Any = getattr(protocol, name, None)
        code = getattr(own, "__code__", None)
        if code is not None and Path(code.co_filename).is_relative_to(home):
            place = f"{code.co_filename}:{code.co_firstlineno}"
            object.__setattr__(protocol, name, _checked(own, place, wrong))


def wrong(protocol: Protocol, home: Path) -> Iterator[str]:
    """``name = value, wanted ...`` for each field, and each method that cannot be called."""
    if protocol.name != home.name:
        yield f"name = {protocol.name!r}, wanted {home.name!r}, its folder"
    if not isinstance(protocol, TreeProtocol):
        return
    number = protocol.number
    if number not in NUMBERS:
        yield f"number = {number}, wanted one from {NUMBERS[0]} to {NUMBERS[-1]}"
    if not (home / protocol.control).is_file():
        yield f"control = {protocol.control!r}, wanted a P4 file of {home}"
    elif number not in (in_p4 := numbers_in(home / protocol.control) or [number]):
        yield f"number = {number}, wanted {in_p4[0]}, which {protocol.control} has as OWN_NUMBER"
    yield from _wrong_in_c(protocol.name, home)
    for name in _RESULTS:
        wanted = signature(getattr(TreeProtocol, name)).parameters
        try:
            signature(getattr(type(protocol), name)).bind(*wanted)
        except TypeError as error:
            yield f"a method {name} that cannot be called with ({', '.join(wanted)}): {error}"


def _wrong_in_c(name: str, home: Path) -> Iterator[str]:
    """Hosts behave as SwitchML's if there is no ``name``.c."""
    files = {path.name for path in home.glob("*.[ch]")}
    if taken := sorted(files & engine_files()):
        yield f"a file {taken[0]}, a name that the hosts' C code uses itself; rename it"
    sources = sorted(each for each in files if each.endswith(".c"))
    if sources and f"{name}.c" not in files:
        yield f"{', '.join(sources)} and no {name}.c, wanted one; rename the file of its hosts"
    elif sources and not re.search(
        rf"\bstruct\s+protocol\s+{name}\b", (home / f"{name}.c").read_text(errors="replace")
    ):
        yield f"{name}.c without `const struct protocol {name}`, wanted it there"


def engine_files() -> set[str]:
    """The names of the C files of hosts, which are compiled in one folder with users' own."""
    return {path.name for path in (Path(__file__).parents[1] / "hosts" / "engine").glob("*.[ch]")}


def is_in(program: Path, protocol: TreeProtocol) -> bool:
    """Whether a P4 program has a user's protocol, as far as it shows that."""
    number, numbers = protocol.number, numbers_in(program)
    return numbers is None or number in numbers


def numbers_in(program: Path) -> list[int] | None:
    """The numbers of users' protocols that a P4 program has: source, or what p4c made of it. None
    if it does not show them, as source that includes the control of another file."""
    return _numbers(program.suffix, program.read_text(errors="replace"))


@lru_cache(maxsize=8)  # a sweep has the same program in every cell, and p4c's JSON is large
def _numbers(suffix: str, text: str) -> list[int] | None:
    if suffix == ".p4":
        return [int(found, 0) for found in _OWN_NUMBER.findall(text)] or None
    styles = {*_styles(json.loads(text))}
    return sorted(styles.intersection(NUMBERS)) if styles else None


def _styles(compiled: Any) -> Iterator[int]:
    """The numbers of protocols that p4c's JSON compares a packet's style with."""
    match compiled:
        case {"op": "==", "left": {"value": [_, str(field)]}, "right": {"value": str(number)}}:
            if "._style" in field:
                yield int(number, 16)
        case dict():
            for below in compiled.values():
                yield from _styles(below)
        case list():
            for below in compiled:
                yield from _styles(below)


def _checked(own: Callable[..., Any], place: str, wrong: Wrong) -> Callable[..., Any]:
    @wraps(own)
    def checked(*arguments: Any) -> Any:
        name = own.__name__
        try:
            found = own(*arguments)
        except Exception as error:
            where = extensions.place_of(error) or place
            message = f"{where}: {name}: {type(error).__name__}: {error}"
            raise DeploymentError(message) from error
        if wanted := wrong(found, arguments):
            raise DeploymentError(f"{place}: {name}: found {found!r:.80}, wanted {wanted}")
        return found

    del checked.__wrapped__  # it is no method of the user's any more
    return checked


def _whole(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 0


def _all_whole(values: object) -> bool:
    return isinstance(values, Sequence) and not isinstance(values, str) and all(map(_whole, values))


def _window(found: Any, _: tuple[Any, ...]) -> str | None:
    right = isinstance(found, Sequence) and len(found) == 2 and _all_whole(found) and found[0] > 0
    return None if right else (
        "two whole numbers: fragments in flight, from 1 on, and fragments in a message or 0"
    )  # fmt: skip


def _priorities(found: Any, arguments: tuple[Any, ...]) -> str | None:
    units = len(arguments[1])
    right = _all_whole(found) and len(found) == units and all(each in PRIORITIES for each in found)
    return None if right else f"{units} whole numbers from 0 to {PRIORITIES[-1]}, one for each unit"


def _own_slots(found: Any, _: tuple[Any, ...]) -> str | None:
    return None if _whole(found) else "a whole number from 0 on"


def _carried(found: Any, arguments: tuple[Any, ...]) -> str | None:
    number = isinstance(found, Real) and not isinstance(found, bool)
    right = number and math.isfinite(found) and found >= 0
    return None if right else f"a number from 0 to {arguments[0]}, the packets"


def _slots(found: Any, _: tuple[Any, ...]) -> str | None:
    right = _all_whole(found) and len(found) > 0
    return None if right else "whole numbers from 0 on, one at least"


def _role(found: Any, _: tuple[Any, ...]) -> str | None:
    return None if isinstance(found, (Member, Root, Neighbours)) else "a Member, Root or Neighbours"


def _join(found: Any, _: tuple[Any, ...]) -> str | None:
    return None if isinstance(found, TableEntry) else "a TableEntry"


def _connection(found: Any, _: tuple[Any, ...]) -> str | None:
    return None if found is None or isinstance(found, TableEntry) else "a TableEntry or None"


def _copy(found: Any, _: tuple[Any, ...]) -> str | None:
    right = (
        isinstance(found, tuple)
        and len(found) == 2
        and isinstance(found[0], str)
        and _all_whole(found[1])
    )
    return None if right else "the name of an action, and whole numbers"


_RESULTS: dict[str, Wrong] = {
    "window": _window,
    "priorities": _priorities,
    "own_slots": _own_slots,
    "carried": _carried,
    "slots": _slots,
    "role": _role,
    "join": _join,
    "connection": _connection,
    "copy": _copy,
}
"""The methods that a protocol may override, with the check of their results."""
