"""YAML with positions: plain data, and the place of each key and value in the file.

Scalars follow YAML 1.2's core schema rather than the 1.1 that PyYAML reads by default: ``4:1`` is
text and not 241, ``no`` is text and not false, ``1e6`` is a number. Anchors, aliases and merge keys
(``<<``) work; infinities and NaN are rejected.
"""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

# The place of a value, such as ("jobs", 0, "system").
Place = tuple[str | int, ...]
# Aliases can expand exponentially; no reasonable file comes near this many values.
MOST_VALUES = 100_000
MOST_BYTES = 4_000_000
MOST_NESTED = 100


@dataclass(frozen=True, order=True)
class Problem:
    """A problem at one place of a file; lines and columns count from 1, 0 means the whole file.

    ``message`` reads ``found X, wanted Y; how to fix it``.
    """

    file: str
    line: int
    column: int
    path: str
    message: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        text = ": ".join(part for part in (place, self.path, self.message) if part)
        # A message is one line without control characters, whatever the file holds.
        return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


class Invalid(ValueError):
    """All problems of the input, ordered by file and line."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(set(problems)))
        super().__init__("\n".join(map(str, self.problems)))


@dataclass(frozen=True)
class Located:
    """A YAML file's plain data, with the (line, column) of the key and value at every place."""

    file: str
    data: dict[str, Any]
    keys: dict[Place, tuple[int, int]]
    values: dict[Place, tuple[int, int]]

    def problem(self, place: Place, message: str, *, at_key: bool = False) -> Problem:
        """A problem at ``place``, or at the nearest place around it that the file has."""
        line, column = self._position(place, at_key)
        return Problem(self.file, line, column, dotted(place), message)

    def part(self, place: Place) -> Located:
        """The mapping at ``place`` as if it were the whole file, with unchanged positions."""
        data: Any = self.data
        for key in place:
            data = data[key]
        size = len(place)
        return Located(
            self.file,
            data,
            {inner[size:]: at for inner, at in self.keys.items() if inner[:size] == place},
            {inner[size:]: at for inner, at in self.values.items() if inner[:size] == place},
        )

    def _position(self, place: Place, at_key: bool) -> tuple[int, int]:
        if at_key and place in self.keys:
            return self.keys[place]
        while place and place not in self.values:
            place = place[:-1]
            # A missing key is reported at the key that should hold it.
            if place in self.keys:
                return self.keys[place]
        return self.values[place]


def dotted(place: Place) -> str:
    """``jobs.0.system``: a place as experiment files write it."""
    return ".".join(map(str, place))


def read(path: str | Path) -> Located:
    """Read a YAML file that holds a mapping. Raises Invalid with every problem found."""
    file, path = str(path), Path(path)
    try:
        text = contents(path, MOST_BYTES).decode("utf-8")
    except OSError as error:
        message = f"found {reason(error)}, wanted a YAML file"
        raise Invalid([Problem(file, 0, 0, "", message)]) from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        column = error.start - (error.object.rfind(b"\n", 0, error.start) + 1) + 1
        message = f"found byte 0x{error.object[error.start]:02x}, wanted text; save it as UTF-8"
        raise Invalid([Problem(file, line, column, "", message)]) from None
    return parse(text, file)


def contents(path: Path, most: int | None = None) -> bytes:
    """A file's bytes. Raises OSError if it has more than ``most``, or never ends."""
    if path.exists() and not path.is_file():
        raise OSError("a directory" if path.is_dir() else "a device or a pipe")
    if most is not None and (size := path.stat().st_size) > most:
        raise OSError(f"{size} bytes, more than the {most} that are read")
    return path.read_bytes()


def reason(error: Exception) -> str:
    """Why a file cannot be read. An OSError's own text has a number, and the file's name."""
    said = error.strerror if isinstance(error, OSError) else None
    return said.lower() if said else str(error)


def parse(text: str, file: str = "<text>") -> Located:
    """Read YAML text that holds a mapping. Raises Invalid with every problem found."""
    try:
        if deep := _too_deep(text):
            message = f"found more than {MOST_NESTED} values inside one another, wanted fewer"
            raise Invalid([Problem(file, *deep, "", message)])
        node = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = ", ".join(part for part in (error.context, error.problem) if part)
        line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
        message = f"found a syntax error ({what}), wanted YAML; {_fix(text, line, what)}"
        raise Invalid([Problem(file, line, column, "", message)]) from None
    except yaml.reader.ReaderError as error:
        before = text[: error.position]
        line, column = before.count("\n") + 1, error.position - (before.rfind("\n") + 1) + 1
        code = error.character if isinstance(error.character, int) else ord(error.character)
        message = f"found the control character U+{code:04X}, wanted YAML text; remove it"
        raise Invalid([Problem(file, line, column, "", message)]) from None
    if node is None:
        message = "found an empty file, wanted a mapping; write at least one `key: value`"
        raise Invalid([Problem(file, 1, 1, "", message)])
    reading = _Reading(file)
    data = reading.value(node, ())
    if not isinstance(node, yaml.MappingNode):
        message = f"found {_kind(node)}, wanted a mapping; write lines of `key: value`"
        reading.report(node, (), message)
    if reading.problems:
        raise Invalid(reading.problems)
    return Located(file, data, reading.keys, reading.values)


def write(data: object) -> str:
    """Plain data as YAML text. `parse` and readers of YAML 1.1 read it back unchanged."""
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)


def _too_deep(text: str) -> tuple[int, int] | None:
    """Where values are nested deeper than `MOST_NESTED`. PyYAML recurses once per level."""
    if max(text.count("["), text.count("{"), text.count("- "), text.count("  ")) < MOST_NESTED:
        return None
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MOST_NESTED:
            mark = event.start_mark
            assert mark is not None
            return mark.line + 1, mark.column + 1
    return None


class _Loader(yaml.SafeLoader):
    """YAML 1.2's core schema. Its resolvers replace SafeLoader's, which remains unchanged."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012


_TAG = "tag:yaml.org,2002:"
_CONTROL = re.compile("[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f\\ud800-\\udfff\\ufffe\\uffff]")
"""Characters that reports, which are XML, cannot have."""
_LONGEST_NUMBER = 100
"""Characters of an integer; Python does not read thousands of digits."""
for _tag, _regexp, _first in [
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?(0|[1-9][0-9]*)", list("-+0123456789")),
    (
        "float",
        r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))([eE][-+]?[0-9]+)?"
        r"|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        list("-+0123456789."),
    ),
    ("merge", r"<<", ["<"]),
]:
    _Loader.add_implicit_resolver(_TAG + _tag, re.compile(rf"^(?:{_regexp})$"), _first)


class _Dumper(yaml.SafeDumper):
    """Quotes text that either version of YAML would not read as text."""

    yaml_implicit_resolvers = {  # noqa: RUF012
        first: [
            *yaml.SafeDumper.yaml_implicit_resolvers.get(first, []),
            *_Loader.yaml_implicit_resolvers.get(first, []),
        ]
        for first in {**yaml.SafeDumper.yaml_implicit_resolvers, **_Loader.yaml_implicit_resolvers}
    }

    def ignore_aliases(self, data: object) -> bool:
        return True

    def represent_str(self, data: str) -> yaml.ScalarNode:
        # PyYAML writes Unicode line breaks unescaped, and reads them back as spaces.
        style = '"' if set(data) & set("\x85\u2028\u2029") else None
        return self.represent_scalar(_TAG + "str", data, style)


_Dumper.add_representer(str, _Dumper.represent_str)


class _Reading:
    """One pass over the composed nodes."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.keys: dict[Place, tuple[int, int]] = {}
        self.values: dict[Place, tuple[int, int]] = {}
        self.problems: list[Problem] = []
        self._open: list[yaml.Node] = []
        self._count = 0

    def report(self, node: yaml.Node, place: Place, message: str) -> None:
        line, column = _position(node)
        self.problems.append(Problem(self.file, line, column, dotted(place), message))

    def value(self, node: yaml.Node, place: Place) -> Any:
        self.values[place] = _position(node)
        self._count += 1
        if self._count > MOST_VALUES:
            if self._count == MOST_VALUES + 1:
                what = f"found more than {MOST_VALUES} values, wanted fewer; use fewer aliases"
                self.report(node, place, what)
            return None
        if any(node is outer for outer in self._open):
            self.report(node, place, "found an alias inside its own anchor, wanted a finite value")
            return None
        self._open.append(node)
        try:
            if isinstance(node, yaml.MappingNode):
                return self._mapping(node, place)
            if isinstance(node, yaml.SequenceNode):
                return [self.value(item, (*place, i)) for i, item in enumerate(node.value)]
            return self._scalar(node, place)
        finally:
            self._open.pop()

    def _mapping(self, node: yaml.MappingNode, place: Place) -> dict[str, Any]:
        data: dict[str, Any] = {}
        first: dict[str, int] = {}
        for key_node, value_node in node.value:
            if key_node.tag == _TAG + "merge":
                continue
            if not isinstance(key_node, yaml.ScalarNode):
                what = f"found {_kind(key_node)} as a key, wanted a word; quote it"
                self.report(key_node, place, what)
                continue
            key: str = key_node.value
            inner = (*place, key)
            if key in first:
                what = f"found the key {key!r} again, wanted it once; line {first[key]} has it too"
                self.report(key_node, inner, f"{what}, remove one")
                continue
            first[key] = _position(key_node)[0]
            self.keys[inner] = _position(key_node)
            data[key] = self.value(value_node, inner)
        for key_node, value_node in node.value:
            if key_node.tag == _TAG + "merge":
                self._merge(value_node, place, data)
        return data

    def _merge(self, node: yaml.Node, place: Place, data: dict[str, Any]) -> None:
        """Fill ``data`` from the mappings after ``<<``; existing keys keep their values."""
        for source in node.value if isinstance(node, yaml.SequenceNode) else [node]:
            if not isinstance(source, yaml.MappingNode):
                self.report(source, place, f"found {_kind(source)} after <<, wanted a mapping")
                continue
            fresh = _Reading(self.file)
            fresh._open, fresh._count = self._open, self._count
            merged = fresh.value(source, place)
            self._count = fresh._count
            self.problems += fresh.problems
            for key, value in (merged or {}).items():
                if key not in data:
                    data[key] = value
                    inner = (*place, key)
                    size = len(inner)
                    self.keys |= {p: at for p, at in fresh.keys.items() if p[:size] == inner}
                    self.values |= {p: at for p, at in fresh.values.items() if p[:size] == inner}

    def _scalar(self, node: yaml.Node, place: Place) -> Hashable:
        text: str = node.value
        tag = node.tag.removeprefix(_TAG)
        try:
            if tag == "str":
                if found := _CONTROL.search(text):
                    what = f"found the control character {found.group()!r}, wanted text"
                    self.report(node, place, f"{what}; remove it")
                return text
            if tag == "null":
                return None
            if tag == "bool":
                return {"true": True, "false": False}[text.lower()]
            if tag == "int" and len(text) > _LONGEST_NUMBER:
                what = f"found a number of {len(text)} characters, wanted {_LONGEST_NUMBER} at most"
                self.report(node, place, f"{what}; change it")
                return None
            if tag == "int":
                return int(text)
            if tag == "float":
                number = float(re.sub(r"\.(?=inf|nan)", "", text.lower()))
                if not math.isfinite(number):
                    self.report(node, place, f"found {text!r}, wanted a finite number; change it")
                return number
        except (ValueError, KeyError):
            self.report(node, place, f"found {text!r}, wanted !!{tag}; remove the tag")
            return None
        self.report(node, place, f"found the tag {node.tag}, wanted plain YAML; remove the tag")
        return None


def _position(node: yaml.Node) -> tuple[int, int]:
    return node.start_mark.line + 1, node.start_mark.column + 1


def _kind(node: yaml.Node) -> str:
    if isinstance(node, yaml.MappingNode):
        return "a mapping"
    if isinstance(node, yaml.SequenceNode):
        return "a list"
    return "nothing" if node.tag == _TAG + "null" else f"the single value {node.value!r}"


def _fix(text: str, line: int, what: str) -> str:
    lines = text.splitlines()
    if "'\\t'" in what or (0 < line <= len(lines) and lines[line - 1].startswith("\t")):
        return "indent with spaces, not tabs"
    if "undefined alias" in what:
        return "define the anchor with & above its use"
    return "check the indentation, colons, quotes and brackets here and just above"
