"""Results to compare with, from directories or from a small file that summarises them.

The file is JSON: for each run, it has the experiment with all defaults filled in, and the valid
rows with the columns that a comparison reads. Each row has a line, so that version control shows
the changes. Each row in virtual time has a record, which shows where a later run differs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from testbed import located, results, run_tables
from testbed.experiment.fields import is_number
from testbed.experiment.schema import Experiment
from testbed.replaced import replacing
from testbed.report import again, backends, data, runs
from testbed.run_tables import Unreadable
from testbed.studies.divergence import Key, Record, records

if TYPE_CHECKING:
    import pandas as pd

SCHEMA_VERSION = 1
COLUMNS = (
    "cell", "repeat", "job", "system", "workload", "topology", "workers", "servers", "ina_tors",
    "tors", "switches", "ina_switches", "backend", "iterations", "jct_s", "expected_jct_s",
    "verified", "verdict", "error", "settings",
)  # fmt: skip
_TEXTS = ("cell", "system", "workload", "topology", "backend", "settings")
_NUMBERS = tuple(each for each in COLUMNS if each not in {*_TEXTS, "verified", "verdict", "error"})
_FACTS = ("git_commit", "started_at", "cpu", "cores", "kernel")


@dataclass(frozen=True)
class Outcome:
    """The results of runs.

    Attributes:
        rows: those of results.csv, with at least COLUMNS; ``run`` names a row's run.
        experiments: the data of each run's experiment.
        facts: the provenance of each run, such as its commit.
        records: the records of rows in virtual time; older baselines have none.
    """

    rows: pd.DataFrame
    experiments: Mapping[str, Mapping[str, Any]]
    facts: Mapping[str, Mapping[str, Any]]
    records: Mapping[Key, Record] = field(default_factory=dict)


def load(path: Path) -> Outcome:
    """The results below a directory, or in a baseline file. Raises Unreadable if there are none."""
    if path.is_dir():
        return directories([path])
    try:
        content = json.loads(path.read_text())
    except FileNotFoundError:
        raise Unreadable(
            f"found no {path}, wanted a results directory or a stored baseline"
        ) from None
    except (OSError, RecursionError, ValueError) as error:
        raise Unreadable(
            f"{path}: found no JSON ({error}), wanted a results directory or a stored baseline"
        ) from error
    return _parsed(content, path)


def directories(paths: Sequence[Path]) -> Outcome:
    """The results below ``paths``, without rows that a later run replaces. Raises Unreadable if one
    has none, or if a run's experiment cannot be read."""
    try:
        tables = run_tables.read(paths)
    except FileNotFoundError as error:
        raise Unreadable(str(error)) from error
    about = runs.of(tables.results)
    rows = again.latest(tables.results, about)
    experiments, facts = {}, {}
    for name in map(str, rows["run"].unique()):
        try:
            experiments[name] = _filled(located.read(Path(name) / results.EXPERIMENT).data)
        except located.Invalid as error:
            raise Unreadable(str(error)) from None
        metadata = run_tables.read_metadata(name)
        facts[name] = {key: metadata[key] for key in _FACTS if metadata.get(key) is not None}
    backends.check(rows["backend"])
    return Outcome(rows, experiments, facts, records(tables, run_tables.read_digests(paths)))


def save(outcome: Outcome, path: Path) -> int:
    """Store the valid rows in a file; returns their number. Raises Unreadable if there are none."""
    rows = outcome.rows[data.is_valid(outcome.rows)]
    if not len(rows):
        raise Unreadable("found no valid row, wanted at least one to store as a baseline")
    kept = []
    for name, own in rows.groupby("run", sort=False):
        cells = set(own["cell"])
        records = own.sort_values(["backend", "system", "cell", "repeat", "job"])[list(COLUMNS)]
        lines = map(json.dumps, records.astype(object).to_numpy().tolist())
        of_run = [
            json.dumps([*key[1:], *record.data()])
            for key, record in sorted(outcome.records.items(), key=lambda each: each[0])
            if key[0] == name and key[1] in cells
        ]
        head = {"facts": outcome.facts[str(name)], "experiment": outcome.experiments[str(name)]}
        kept.append(
            json.dumps(head, indent=1, ensure_ascii=False).removesuffix("\n}")
            + ',\n "rows": [\n  '
            + ",\n  ".join(lines)
            + '\n ],\n "records": [\n  '
            + ",\n  ".join(of_run)
            + "\n ]\n}"
        )
    text = f'{{"schema_version": {SCHEMA_VERSION}, "columns": {json.dumps(COLUMNS)},\n"runs": [\n'
    with replacing(path) as made:
        made.write_text(text + ",\n".join(kept) + "\n]}\n")
    return len(rows)


def _parsed(content: Any, path: Path) -> Outcome:
    import pandas as pd

    wanted = f"wanted a file of `ina-testbed baseline`; write {path.name} again"
    try:
        if content["schema_version"] != SCHEMA_VERSION:
            found = f"schema_version {content['schema_version']}"
            raise Unreadable(f"{path}: found {found}, wanted {SCHEMA_VERSION}; write it again")
        tables, experiments, facts = [], {}, {}
        kept: dict[Key, Record] = {}
        for number, run in enumerate(content["runs"]):
            name = f"{path}#{number}"
            if any(len(row) != len(content["columns"]) for row in run["rows"]):
                raise ValueError("a row is cut")
            table = pd.DataFrame(run["rows"], columns=content["columns"]).assign(run=name)
            if absent := set(COLUMNS).difference(table.columns):
                raise Unreadable(f"{path}: found no {', '.join(sorted(absent))}, {wanted}")
            if not table[list(_TEXTS)].map(lambda value: isinstance(value, str)).all(axis=None):
                raise ValueError("a row lacks a text")
            numbers = table[[*_NUMBERS]]
            if not numbers.map(lambda value: value is None or is_number(value)).all(axis=None):
                raise ValueError("a row has something else for a number")
            if not all(isinstance(json.loads(each), dict) for each in table["settings"].unique()):
                raise ValueError("settings are no mapping")
            tables.append(table)
            experiments[name], facts[name] = _filled({**run["experiment"]}), {**run["facts"]}
            for cell, repeat, job, *record in run.get("records", ()):
                kept[name, str(cell), int(repeat), int(job)] = Record.of(*record)
        rows = pd.concat(tables, ignore_index=True)
        backends.check(rows["backend"])
        return Outcome(rows, experiments, facts, kept)
    except Unreadable:
        raise
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise Unreadable(f"{path}: found no stored baseline, {wanted}") from error


def _filled(experiment: Mapping[str, Any]) -> Mapping[str, Any]:
    """The experiment, completed with the defaults of fields that are newer than it."""
    try:
        return Experiment.model_validate(experiment).data()
    except ValidationError:
        return experiment
