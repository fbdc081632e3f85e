"""Reads the directories of runs, which `testbed.results` writes.

No cell's result depends on this module. What can be damaged is checked here: a table's header, the
number of fields of each row, and its numbers.
"""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import MISSING, fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from testbed.results import (
    COLUMNS,
    DIGEST_COLUMNS,
    DIGESTS,
    EXPERIMENT,
    ITERATION_COLUMNS,
    ITERATIONS,
    LINK_COLUMNS,
    LINKS,
    METADATA,
    PROGRESS_COLUMNS,
    RESULTS,
    TRAINING,
    Iteration,
    LinkLoad,
    PacketDigests,
    Progress,
    Row,
)

if TYPE_CHECKING:  # slow to import
    import pandas as pd

# One field has all waits of an iteration, which may be thousands.
csv.field_size_limit(sys.maxsize)

_WANTED = "wanted what `run` wrote"
_TABLES = (Row, Iteration, LinkLoad, Progress, PacketDigests)
_COLUMNS = [each for table in _TABLES for each in fields(table)]
_TEXT = {each.name for each in _COLUMNS if each.type == "str"}
_TRUTHS = {each.name for each in _COLUMNS if each.type in ("bool", "bool | None")}
_NEEDED = {each.name for each in fields(Row) if each.default is MISSING} | {"jct_s", "verdict"}
"""Columns that every version has written; others may be missing."""
_FILLED = {
    each.name
    for kind in (Row, Iteration)
    for each in fields(kind)
    if each.default is MISSING and each.name not in _TEXT | _TRUTHS
}
"""Columns with a number in each row."""
_WHOLE = {
    tuple(each.name for each in fields(table)): {
        each.name for each in fields(table) if each.type in ("int", "int | None")
    }
    for table in _TABLES
}
"""The columns of each table, by its columns, with whole numbers."""
MOST = 1e100
"""No number of a table is that large. Means and squares of smaller ones are finite."""
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
"""Characters that figures and pages cannot contain."""


class Unreadable(ValueError):
    """The input is not a result of a run; the message says what was found and wanted."""


class Tables(NamedTuple):
    """Rows of any number of runs; the column ``run`` names the directory of each."""

    results: pd.DataFrame
    iterations: pd.DataFrame
    links: pd.DataFrame


def read(paths: str | Path | Iterable[str | Path]) -> Tables:
    """Read the tables of run directories, or of all run directories below the given ones.

    If a run is still being written, or was interrupted, only its complete rows are read. Columns
    that an older version did not write are empty.

    Raises FileNotFoundError if a path holds no results, and Unreadable if a file is not a table.
    """
    runs = _runs(paths)
    return Tables(
        _table(runs, RESULTS, COLUMNS),
        _table(runs, ITERATIONS, ITERATION_COLUMNS),
        _table(runs, LINKS, LINK_COLUMNS),
    )


def read_results(paths: str | Path | Iterable[str | Path]) -> pd.DataFrame:
    """Only the first table of `read`, the results: it is much smaller than the others."""
    return _table(_runs(paths), RESULTS, COLUMNS)


def read_digests(paths: str | Path | Iterable[str | Path]) -> pd.DataFrame:
    """The rows of `PacketDigests` of the runs that `read` finds. Older runs have none."""
    return _table(_runs(paths), DIGESTS, DIGEST_COLUMNS)


def read_training(paths: str | Path | Iterable[str | Path]) -> pd.DataFrame:
    """The rows of `Progress` of the runs that `read` finds."""
    return _table(_runs(paths), TRAINING, PROGRESS_COLUMNS)


def read_text(path: Path, needed: Collection[str] = ()) -> list[dict[str, str]]:
    """The complete rows of one table as text, by column. Raises Unreadable if the file is not a
    table, or has not the columns ``needed``."""
    columns, rows = _fields(path, needed)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def settings_key(settings: Mapping[str, Any]) -> str:
    """A cell's settings in full, to find its rows: texts for readers are shortened, and may be the
    same for several cells."""
    return json.dumps(settings, sort_keys=True)


def by_settings(rows: pd.DataFrame) -> pd.api.typing.DataFrameGroupBy:
    """The rows, grouped by their cells' `settings_key`."""
    keys = rows["settings"].map(lambda settings: settings_key(json.loads(settings)))
    return rows.groupby(keys, sort=False)


def cut(paths: str | Path | Iterable[str | Path]) -> int:
    """How many runs end in an incomplete row, which `read` leaves out."""
    return sum(bool((run / RESULTS).read_bytes().rpartition(b"\n")[2]) for run in _runs(paths))


def last_run(path: str | Path) -> Path:
    """The run directory at ``path``, or the one below it that was begun last.

    Raises FileNotFoundError if there is none.
    """
    return max(_runs(path), key=lambda run: _written_ns(run / EXPERIMENT))


def _written_ns(path: Path) -> int:
    """When a file was written; 0 if its run was killed before that."""
    return path.stat().st_mtime_ns if path.exists() else 0


def read_metadata(run: str | Path) -> dict[str, Any]:
    """The content of a run's ``run.json``; empty if there is none yet. Raises Unreadable."""
    path = Path(run) / METADATA
    try:
        content = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except (RecursionError, ValueError) as error:
        raise Unreadable(f"{path}: found no JSON ({error}), {_WANTED}") from error
    if not isinstance(content, dict):
        raise Unreadable(f"{path}: found no JSON object, {_WANTED}")
    return content


def _runs(paths: str | Path | Iterable[str | Path]) -> list[Path]:
    if isinstance(paths, (str, Path)):
        paths = [paths]
    runs: list[Path] = []
    for path in map(Path, paths):
        found = sorted(file.parent for file in path.rglob(RESULTS))
        if not found:
            raise FileNotFoundError(
                f"found no {RESULTS} in {path}, wanted a run's directory or one above it"
            )
        known = {run.resolve() for run in runs}  # a path can be written in several ways
        runs += [run for run in found if run.resolve() not in known]
    return runs


def _fields(path: Path, needed: Collection[str]) -> tuple[list[str], list[list[str]]]:
    """The header of a table and its complete rows; both are empty if the file is, because the
    machine went down before anything was written."""
    whole = path.read_bytes().rpartition(b"\n")[0]
    try:
        text = whole.decode()
    except UnicodeDecodeError as error:
        raise Unreadable(f"{path}: found no text ({error}), {_WANTED}") from None
    table, rows = csv.reader(io.StringIO(text, newline="")), []
    has_control = _CONTROL.search(text) is not None
    try:
        columns = next(table, [])
        for row in table:
            if len(row) != len(columns):
                said = f"{len(row)} fields under {len(columns)} columns"
                raise Unreadable(f"{path}:{table.line_num}: found {said}, {_WANTED}")
            if has_control:
                row = _printable(row, columns, f"{path}:{table.line_num}")
            rows.append(row)
    except csv.Error as error:
        raise Unreadable(f"{path}:{table.line_num}: found no table ({error}), {_WANTED}") from None
    if twice := sorted({name for name in columns if columns.count(name) > 1}):
        raise Unreadable(f"{path}:1: found column {', '.join(twice)} twice, {_WANTED}")
    if columns and (absent := sorted({*needed}.difference(columns))):
        raise Unreadable(f"{path}:1: found no column {', '.join(absent)}, {_WANTED}")
    return columns, rows


def _printable(row: list[str], columns: list[str], place: str) -> list[str]:
    """``row`` without control characters in its error, which may be the message of a user's code.
    Raises Unreadable if it has them elsewhere."""
    for name, text in zip(columns, row, strict=True):
        if name != "error" and _CONTROL.search(text):
            found = f"{text[:40]!r} as {name}"
            wanted = "text without control characters"
            raise Unreadable(f"{place}: found {found}, wanted {wanted}, as `run` wrote it")
    return [_CONTROL.sub("\ufffd", text) for text in row]


def _table(runs: list[Path], name: str, columns: tuple[str, ...]) -> pd.DataFrame:
    import pandas as pd

    tables = [_typed(run / name, columns).assign(run=str(run)) for run in runs]
    filled = [table for table in tables if len(table)] or tables[:1]
    table: pd.DataFrame = pd.concat(filled, ignore_index=True)
    return table


def _typed(path: Path, columns: tuple[str, ...]) -> pd.DataFrame:
    """The ``columns`` of a table as numbers, truth values and text; no rows if there is no such
    file."""
    import pandas as pd

    header, rows = _fields(path, _NEEDED & {*columns}) if path.exists() else ([], [])
    table = pd.DataFrame(rows, columns=header, dtype=str).reindex(columns=columns, fill_value="")

    def refuse(column: str, wrong: pd.Series, wanted: str) -> None:
        if wrong.any():
            row = wrong.argmax()
            found = str(table[column].iloc[row])[:40]
            raise Unreadable(
                f"{path}:{row + 2}: found {found!r} as {column}, wanted {wanted}, as `run` wrote it"
            )

    for column in columns:
        text = table[column]
        if column == "settings":
            table[column] = text = text.replace("", "{}")
            refuse(column, ~text.map(_is_object), "a JSON object")
        elif column in _TRUTHS:
            said = {"True": True, "False": False}
            table[column] = pd.Series(map(said.get, text), table.index, object)
        elif column not in _TEXT:
            numbers = pd.to_numeric(text, errors="coerce")
            wrong = numbers.isna() & (text != "")
            if column in _FILLED & {*header} and columns in (COLUMNS, ITERATION_COLUMNS):
                wrong |= numbers.isna()
            refuse(column, wrong, "a number")
            refuse(column, numbers.abs() >= MOST, f"a number below {MOST:g}")
            if columns == COLUMNS:
                refuse(column, numbers < 0, "a number from 0 on")
            if column in _WHOLE[columns]:
                refuse(column, numbers % 1 > 0, "a whole number")
            if columns == COLUMNS and column == "jct_s":
                refuse(column, numbers <= 0, "a number above 0")
            if columns == COLUMNS and column == "tors":
                refuse(column, numbers < 1, "a number from 1 on")
            table[column] = numbers
    return table


@cache
def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (RecursionError, ValueError):
        return False
