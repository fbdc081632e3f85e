"""The testbed's own file format for traces.

``workloads/*.trace`` is text: a header of ``key: value`` lines, a line ``---``, a line
of column names, then one line per tensor in forward order, columns separated by tabs::

    schema_version: 1
    name: resnet50
    sha256: 0f3a...        over every other line of the file
    ---
    tensor	elements	ready	forward_us	forward_iqr_us	backward_us	backward_iqr_us
    conv1.weight	9408	160	812.250	10.125	2210.000	35.500

``ready`` is the tensor's place, from 0, in the order in which the backward pass finishes gradients,
and ``backward_us`` is the time from the previous gradient in that order to this one. ``forward_us``
is the time from the start of the tensor's module to the start of the next one that owns tensors.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from testbed.located import contents
from testbed.workload.trace import Tensor, Trace, TraceError

SCHEMA_VERSION = 1
SUFFIX = ".trace"

COLUMNS = (
    "tensor",
    "elements",
    "ready",
    "forward_us",
    "forward_iqr_us",
    "backward_us",
    "backward_iqr_us",
)
CORE_KEYS = ("schema_version", "name", "batch", "dtype_bytes", "tensors", "elements", "sha256")
PROVENANCE_KEYS = (
    "contents",
    "model",
    "input",
    "loss",
    "dtype",
    "recorded_on",
    "recorded_batch",
    "recorded_precision",
    "recorded_clock",
    "recorded_with",
    "recorded_at",
    "seed",
    "warmup",
    "iterations",
    "measured_forward",
    "measured_backward",
    "iteration_time",
    "iteration_time_source",
    "imported_from",
    "pgp",
    "pgp_recorded",
)
_RULE = "---"
_KEY_VALUE = re.compile(r"([a-z0-9_]+): (.*\S)\s*")
_WHOLE = re.compile(r"[0-9]{1,18}")
_DECIMAL = re.compile(r"[0-9]{1,15}(\.[0-9]{1,9})?")


def load(path: Path) -> Trace:
    """Read a trace file. Raises TraceError, which lists every problem as ``file:line: found,
    wanted``."""
    try:
        data = contents(path)
        data.decode()
    except OSError as error:
        raise TraceError([f"{path}: cannot be read: {error.strerror or error}"]) from error
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise TraceError([f"{path}:{line}: not text in UTF-8"]) from error
    return _Reader(str(path), data).trace()


def save(trace: Trace, path: Path) -> None:
    """Write ``trace`` with its checksum. Times are rounded to a nanosecond.

    Raises ValueError for a provenance key that is not in PROVENANCE_KEYS, and TraceError for a
    trace that could not be read again, such as one with a tab in a name.
    """
    unknown = sorted(set(trace.provenance) - set(PROVENANCE_KEYS))
    if unknown:
        raise ValueError(f"unknown provenance {unknown}; known are {PROVENANCE_KEYS}")
    place = {tensor: position for position, tensor in enumerate(trace.ready)}
    head = {
        "schema_version": SCHEMA_VERSION,
        "name": trace.name,
        "batch": trace.batch,
        "dtype_bytes": trace.dtype_bytes,
        "tensors": len(trace.tensors),
        "elements": trace.elements,
    }
    lines = [f"{key}: {value}" for key, value in head.items()]
    lines += [
        f"{key}: {' '.join(trace.provenance[key].split())}"
        for key in PROVENANCE_KEYS
        if key in trace.provenance
    ]
    seal = len(lines)
    lines += [_RULE, "\t".join(COLUMNS)]
    for index, t in enumerate(trace.tensors):
        times = (t.forward_s, t.forward_spread_s, t.backward_s, t.backward_spread_s)
        micros = [f"{seconds * 1e6:.3f}" for seconds in times]
        lines.append("\t".join([t.name, str(t.elements), str(place[index]), *micros]))
    lines.insert(seal, f"sha256: {_checksum(_text(lines))}")
    content = _text(lines)
    _Reader(str(path), content).trace()
    path.write_bytes(content)


def _text(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def _checksum(data: bytes) -> str:
    """SHA-256 of all lines except its own: ``grep -v ^sha256: FILE | sha256sum``."""
    kept = [line for line in data.splitlines(keepends=True) if not line.startswith(b"sha256:")]
    return hashlib.sha256(b"".join(kept)).hexdigest()


class _Reader:
    """Checks one file and remembers every problem with its line."""

    def __init__(self, path: str, data: bytes) -> None:
        self.path = path
        self.data = data
        self.lines = data.decode().splitlines()
        self.problems: list[str] = []

    def trace(self) -> Trace:
        if not any(line.startswith("schema_version:") for line in self.lines):
            # This is another kind of file, perhaps a private one, so its lines are not quoted.
            raise TraceError([f"{self.path}: no line 'schema_version: {SCHEMA_VERSION}': no trace"])
        values, lines, table = self._header()
        version = values.get("schema_version")
        if version is not None and version != str(SCHEMA_VERSION):
            # The other lines of another version cannot be checked: report only the version.
            wrong = f"schema_version {version}, this testbed reads {SCHEMA_VERSION}"
            raise TraceError([f"{self.path}:{lines['schema_version']}: {wrong}"])
        missing = [key for key in CORE_KEYS if key not in values]
        if missing:
            self._say(table, f"the header lacks {', '.join(missing)}")
        numbers = {
            key: self._whole(values[key], key, lines[key], least=1)
            for key in ("batch", "dtype_bytes", "tensors", "elements")
            if key in values
        }
        tensors, order = self._table(table)
        if numbers.get("tensors", len(tensors)) != len(tensors):
            wanted = f"{len(tensors)} tensors, the header says {numbers['tensors']}"
            self._say(len(self.lines), f"the file ends after {wanted}: truncated?")
        elif sorted(order) != list(range(len(order))):
            self._say(table, "the column ready must hold 0, 1, 2 ... each once, in any order")
        elements = sum(tensor.elements for tensor in tensors)
        if numbers.get("elements", elements) != elements:
            self._say(lines["elements"], f"{numbers['elements']} elements, the tensors {elements}")
        found = _checksum(self.data)
        if values.get("sha256", found) != found:
            self._say(lines["sha256"], f"checksum {values['sha256']}, the file's is {found}")
        if self.problems:
            raise TraceError(self.problems)
        return Trace(
            name=values["name"],
            batch=numbers["batch"],
            tensors=tuple(tensors),
            ready=tuple(sorted(range(len(order)), key=order.__getitem__)),
            dtype_bytes=numbers["dtype_bytes"],
            provenance={key: values[key] for key in PROVENANCE_KEYS if key in values},
        )

    def _header(self) -> tuple[dict[str, str], dict[str, int], int]:
        """Values and line numbers by key, and the line number of the ``---`` below the header."""
        values: dict[str, str] = {}
        lines: dict[str, int] = {}
        for number, line in enumerate(self.lines, 1):
            if line == _RULE:
                return values, lines, number
            match = _KEY_VALUE.fullmatch(line)
            if not match:
                self._say(number, f"{line[:60]!r}, wanted 'key: value' or '{_RULE}'")
                continue
            key, value = match.groups()
            if key in values:
                self._say(number, f"{key} again, first on line {lines[key]}")
            elif key not in CORE_KEYS + PROVENANCE_KEYS:
                self._say(number, f"unknown field {key!r}")
            else:
                values[key], lines[key] = value, number
        self._say(len(self.lines), f"no line '{_RULE}' ends the header: truncated?")
        return values, lines, len(self.lines)

    def _table(self, rule: int) -> tuple[list[Tensor], list[int]]:
        """Tensors in file order, and the place of each in ready order."""
        tensors: list[Tensor] = []
        order: list[int] = []
        seen: set[str] = set()
        rows = self.lines[rule:]
        if not rows or tuple(rows[0].split("\t")) != COLUMNS:
            self._say(rule + 1, f"wanted the columns {' '.join(COLUMNS)}, separated by tabs")
            return tensors, order
        for number, row in enumerate(rows[1:], rule + 2):
            cells = row.split("\t")
            if len(cells) != len(COLUMNS):
                self._say(number, f"{len(cells)} columns, wanted {len(COLUMNS)}")
                continue
            name = cells[0]
            if not name or name in seen:
                self._say(number, f"tensor {name!r}, wanted a unique name")
            seen.add(name)
            elements = self._whole(cells[1], "elements", number, least=1)
            order.append(self._whole(cells[2], "ready", number, least=0))
            forward, forward_iqr, backward, backward_iqr = (
                self._seconds(cell, column, number)
                for cell, column in zip(cells[3:], COLUMNS[3:], strict=True)
            )
            tensors.append(Tensor(name, elements, forward, backward, forward_iqr, backward_iqr))
        return tensors, order

    def _whole(self, text: str, what: str, line: int, least: int) -> int:
        if not _WHOLE.fullmatch(text) or int(text) < least:
            self._say(line, f"{what} {text!r}, wanted a whole number of at least {least}")
            return least
        return int(text)

    def _seconds(self, text: str, what: str, line: int) -> float:
        if not _DECIMAL.fullmatch(text):
            self._say(line, f"{what} {text!r}, wanted microseconds, not negative")
            return 0.0
        return float(text) / 1e6

    def _say(self, line: int, problem: str) -> None:
        self.problems.append(f"{self.path}:{line}: {problem}")
