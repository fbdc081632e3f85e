"""Resumes a run: finds out which cells of its directory are finished, and sets other rows aside.

A row counts if its cell is wanted, if the same version of the testbed and of the files that the
cell names made it, and if all jobs of the cell have a row. Another version is the same for a cell
if it makes the same deployment and runs it with the same code. Rows that do not count are moved to
files whose names begin with ``superseded-``; nothing that was measured is deleted.
"""

from __future__ import annotations

import csv
import fcntl
import io
import json
import math
import os
import shutil
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path

from testbed import located
from testbed.campaign.version import deployed, version
from testbed.deployment.errors import DeploymentError
from testbed.deployment.experiments import read
from testbed.deployment.users_code import users_systems
from testbed.experiment.cells import Cell, distinct
from testbed.experiment.findings import counted
from testbed.experiment.schema import Experiment
from testbed.machine.verdict import VALID
from testbed.placement.deployments import Deployments
from testbed.results import (
    COLUMNS,
    DIGEST_COLUMNS,
    DIGESTS,
    EXPERIMENT,
    ITERATION_COLUMNS,
    ITERATIONS,
    LINK_COLUMNS,
    LINKS,
    PROGRESS_COLUMNS,
    RESULTS,
    TRAINING,
    RunDirectory,
)
from testbed.run_tables import read_text

SUPERSEDED = "superseded-"
PATIENCE_S = 25.0
"""Seconds to wait for a directory's lock: the last cell of a killed run holds it until it has
cleaned up."""

_OF_THE_RUN = {"experiment", "settings", "started_at", "version", "deployed"}
_ROUNDING = 1e-12
"""The relative difference up to which figures are the same: code that multiplies in another order
makes it."""
_NEEDED = {"cell", "repeat"}
_NEEDED_OF = {RESULTS: {*_NEEDED, "error", "verdict"}}

Key = tuple[str, str]
"""A cell's id and its repeat, as text in a table."""


def key_of(cell: Cell) -> Key:
    return cell.id, str(cell.repeat)


class Busy(DeploymentError):
    """Another run writes into the directory."""


@dataclass(frozen=True)
class Rules:
    """Which rows count as finished.

    ``retry`` may hold "failed" and "invalid": such rows do not count. With ``any_version``, rows
    made by another version of the code count. With ``adopt``, they count once the first of a cell's
    repeats, run again, comes out the same; this is only for virtual time, where runs are exact.
    """

    retry: Collection[str] = ()
    any_version: bool = False
    adopt: bool = False

    def __post_init__(self) -> None:
        if unknown := sorted({*self.retry} - {"failed", "invalid"}):
            found = ", ".join(unknown)
            raise ValueError(f'retry: found {found}, wanted "failed", "invalid" or both')


def experiment_of(run: Path) -> Experiment:
    """The experiment of a run's directory. Rules across its cells are checked only if it is not
    valid, to say what is wrong, and where. Raises Invalid."""
    path = run / EXPERIMENT
    try:
        found = Experiment.model_validate(located.read(path).data)
        distinct(found)
        return found
    except ValueError:
        return read(path)


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Hold a directory's lock against other runs. Raises Busy if one does not release it."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    message = f"{path}: another run writes there; wait until it ends"
                    raise Busy(message) from None
                time.sleep(0.1)
        yield
    finally:
        os.close(descriptor)


def is_held(path: Path) -> bool:
    """Whether a run writes in a directory now."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


@dataclass(frozen=True)
class State:
    """Which of the wanted cells a run's directory holds.

    Attributes:
        wanted: every cell, in the order in which to run them.
        finished: those whose rows count.
        failed: those of them that failed.
        unchanged: those of them that another version made of the same deployment, with the same
            code.
        fallen: the number of rows of each cell that is not wanted, or whose rows do not count.
    """

    wanted: Mapping[Key, Cell]
    finished: frozenset[Key]
    failed: frozenset[Key]
    unchanged: frozenset[Key]
    fallen: Mapping[Key, int]

    @property
    def missing(self) -> list[Cell]:
        """The cells that are still to run."""
        return [cell for key, cell in self.wanted.items() if key not in self.finished]

    def __str__(self) -> str:
        said = f"{len(self.finished)} of {len(self.wanted)} cells are finished"
        if self.failed:
            said += f", {len(self.failed)} failed (to run again: --retry failed)"
        if rows := sum(self.fallen.values()):
            said += (
                f"; {counted(rows, 'row')} of other cells, of failures to retry or of another"
                f" version of the testbed or of a plan will be moved to {SUPERSEDED}{RESULTS}"
            )
        return said


def judge(run: Path, cells: Sequence[Cell], rules: Rules, deployments: Deployments) -> State:
    """Which of the ``cells`` are finished in the directory ``run``; nothing is changed."""
    wanted = {key_of(cell): cell for cell in cells}
    rows = _by_cell(_read(run / RESULTS))
    # The jobs of a cell count all together or not at all.
    whole = {
        key: own
        for key, own in rows.items()
        if key in wanted
        and len(own) == len(wanted[key].experiment.jobs)
        and all(_succeeded(row, rules) for row in own)
    }

    def is_same(key: Key) -> bool:
        ran = [row.get("deployed", "") for row in whole[key]]
        return is_unchanged(ran, wanted[key], deployments)

    users = users_systems()
    current = {
        key
        for key, own in whole.items()
        if {row.get("version") for row in own} == {version(wanted[key].experiment)}
        # A user's system may read other files, which no version knows.
        and (users.isdisjoint(job.system for job in wanted[key].experiment.jobs) or is_same(key))
    }
    unchanged = frozenset(filter(is_same, whole.keys() - current))
    finished = frozenset(whole if rules.any_version else current | unchanged)
    fallen = {key: len(own) for key, own in rows.items() if key not in finished}
    failed = frozenset(key for key in finished if any(row["error"] for row in whole[key]))
    return State(wanted, finished, failed, unchanged, fallen)


def is_unchanged(before: Collection[str], cell: Cell, deployments: Deployments) -> bool:
    """Whether rows of a cell, with these values of ``deployed``, are of the deployment that this
    version makes, and ran with its code."""
    if not all(before):  # older than the column
        return False
    try:
        made = deployments.digest(cell.experiment)
    except DeploymentError:
        return False
    return {*before} == {deployed(cell.experiment, made)}


@dataclass(frozen=True)
class Probes:
    """Rows of another version, and which of them to make again.

    Attributes:
        again: the first repeat of each cell that has such rows.
        others: its other repeats.
        before: the rows of ``again``, as text.
    """

    again: frozenset[Key]
    others: frozenset[Key]
    before: Mapping[Key, list[dict[str, str]]]


def probes(run: Path, state: State, rules: Rules, deployments: Deployments) -> Probes:
    """What to make again in the directory ``run``, whose ``state`` follows the ``rules``; nothing
    unless they say ``adopt``."""
    if not rules.adopt:
        return Probes(frozenset(), frozenset(), {})
    every = list(state.wanted.values())
    lenient = judge(run, every, replace(rules, any_version=True), deployments)
    old = {
        key
        for key in lenient.finished - state.finished
        if state.wanted[key].experiment.backend != "emulate"
    }
    first: dict[str, Key] = {}
    for key in sorted(old, key=lambda key: int(key[1])):
        first.setdefault(key[0], key)
    again = frozenset(first.values())
    before = {key: own for key, own in _by_cell(_read(run / RESULTS)).items() if key in again}
    return Probes(again, frozenset(old - again), before)


def adopt(
    directory: RunDirectory, probed: Probes, wanted: Mapping[Key, Cell], deployments: Deployments
) -> int:
    """Give the current version to other repeats of cells whose rows came out the same; returns how
    many rows that are."""
    rows = _read(directory.path / RESULTS)
    same = {
        key[0]: own[0]["version"]
        for key, own in _by_cell(rows).items()
        if key in probed.again and _same(own, probed.before[key])
    }
    adopted = [row for row in rows if row["cell"] in same and _key(row) in probed.others]
    for row in adopted:
        asked = wanted[_key(row)].experiment
        row["version"] = same[row["cell"]]
        row["deployed"] = deployed(asked, deployments.digest(asked))
    directory.write(RESULTS, _written(COLUMNS, rows))
    return len(adopted)


def _same(now: Sequence[Mapping[str, str]], before: Sequence[Mapping[str, str]]) -> bool:
    """Whether a repeat that is run again has the same results, but for the rounding of sums and
    products in another order."""
    if {row["job"] for row in now} != {row["job"] for row in before}:
        return False
    pairs = zip(*(sorted(rows, key=lambda row: row["job"]) for rows in (now, before)), strict=True)
    return all(
        _equal(one.get(name, ""), other.get(name, ""))
        for one, other in pairs
        for name in COLUMNS
        if name not in _OF_THE_RUN
    )


def _equal(one: str, other: str) -> bool:
    if one == other:
        return True
    try:
        return math.isclose(float(one), float(other), rel_tol=_ROUNDING)
    except ValueError:
        return False


def _succeeded(row: Mapping[str, str], rules: Rules) -> bool:
    """Whether a row is none of those to run again."""
    if row["error"]:
        return "failed" not in rules.retry
    return "invalid" not in rules.retry or row["verdict"] == VALID


def set_aside(directory: RunDirectory, state: State) -> None:
    """Keep only rows that count in the tables of ``directory``, with the current columns."""
    # Results are rewritten last, so that the same cells count as before if this is interrupted.
    for name, columns in (
        (LINKS, LINK_COLUMNS),
        (DIGESTS, DIGEST_COLUMNS),
        (TRAINING, PROGRESS_COLUMNS),
        (ITERATIONS, ITERATION_COLUMNS),
        (RESULTS, COLUMNS),
    ):
        path = directory.path / name
        if name == TRAINING and not path.exists():
            continue  # no job has learnt
        if not path.exists():
            directory.write(name, _written(columns, []))
        whole = not state.fallen and _last(path) in state.finished | {None}
        if not whole or _header(path) != list(columns):
            _keep(directory, name, columns, state.finished)
    _describe_anew(directory, state)


def arrange(directory: RunDirectory, order: Sequence[Key]) -> None:
    """Put the rows of all tables, which were stored as cells ended, into the ``order`` of cells."""
    places = {key: place for place, key in enumerate(order)}
    for name in (LINKS, DIGESTS, TRAINING, ITERATIONS, RESULTS):
        path = directory.path / name
        if not path.exists():
            continue
        with path.open(newline="\n") as file:
            lines = list(file)
        table = csv.reader(lines)
        header = next(table)
        cell, repeat = header.index("cell"), header.index("repeat")
        begin = end = table.line_num
        rows = []
        for row in table:  # one that holds a line's end has several lines
            whole = "".join(lines[end : table.line_num])
            rows.append((places.get((row[cell], row[repeat]), len(places)), whole))
            end = table.line_num
        ordered = sorted(rows, key=itemgetter(0))
        if ordered != rows:
            directory.write(name, "".join([*lines[:begin], *(text for _, text in ordered)]))


def _describe_anew(directory: RunDirectory, state: State) -> None:
    """Update names and settings, because another file's sweep may make the same cells in another
    way, and the versions of unchanged cells."""
    rows = _read(directory.path / RESULTS)
    changed = False
    for row in rows:
        cell = state.wanted[_key(row)]
        now = {"experiment": cell.experiment.name, "settings": json.dumps(cell.settings)}
        if _key(row) in state.unchanged:
            now["version"] = version(cell.experiment)
        changed |= not now.items() <= row.items()
        row.update(now)
    if changed:
        directory.write(RESULTS, _written(COLUMNS, rows))


def _key(row: Mapping[str, str]) -> Key:
    return row["cell"], row["repeat"]


def _by_cell(rows: Iterable[dict[str, str]]) -> dict[Key, list[dict[str, str]]]:
    found: dict[Key, list[dict[str, str]]] = {}
    for row in rows:
        found.setdefault(_key(row), []).append(row)
    return found


def _header(path: Path) -> list[str]:
    with path.open(newline="") as file:
        return next(csv.reader(file), [])


def _read(path: Path) -> list[dict[str, str]]:
    """The complete rows of a table. Raises Unreadable if the file is not such a table."""
    return read_text(path, _NEEDED_OF.get(path.name, _NEEDED))


def _last(path: Path) -> Key | None:
    """The cell of the last row. Tables grow cell by cell, so only that cell can be incomplete."""
    header = _header(path)
    with path.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - 65536))
        lines = file.read().decode(errors="replace").splitlines()
    values = dict(zip(header, next(csv.reader(lines[-1:]), []), strict=False))
    if not values or list(values.values()) == header:
        return None
    return values.get("cell", ""), values.get("repeat", "")


def _keep(
    directory: RunDirectory, name: str, columns: Sequence[str], finished: Collection[Key]
) -> None:
    """Rewrite a table with the rows of finished cells; append the others to another table."""
    table = directory.path / name
    if not {*_header(table)} <= {*columns}:  # somebody's own, or of another version
        shutil.copyfile(table, directory.path / f"{SUPERSEDED}columns-{name}")
    kept: list[dict[str, str]] = []
    aside: list[dict[str, str]] = []
    for row in _read(table):
        (kept if _key(row) in finished else aside).append(row)
    if aside:
        superseded = directory.path / f"{SUPERSEDED}{name}"
        before = _read(superseded) if superseded.exists() else []
        directory.write(superseded.name, _written(columns, before + aside))
    directory.write(name, _written(columns, kept))


def _written(columns: Sequence[str], rows: Sequence[dict[str, str]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
