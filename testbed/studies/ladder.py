"""Closed form, simulator, packets and emulator side by side, from the tables of runs.

Rows of different back ends match if only the back end differs. Jobs of one run that are alike match
in the order of their times: which of them gets ahead is chance, on each back end.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from typing import Any

import pandas as pd

from testbed.experiment.cells import distinct
from testbed.experiment.findings import counted
from testbed.experiment.schema import Experiment
from testbed.placement.fabric import build_fabric
from testbed.report.data import is_valid
from testbed.wire import SLOTS

BOUNDS: dict[tuple[str, bool], tuple[float, float | None]] = {
    ("simulator", False): (0.05, 0.10),
    ("packets", False): (0.03, 0.08),
    ("packets", True): (0.10, None),
}
"""The largest allowed median error against the emulator, and the largest allowed single error, by
rung and by whether packets are lost on purpose or slots are few. The simulator has no bounds with
losses or few slots, because it models neither losses nor collisions."""

_SAME = ["experiment", "job", "system", "workload", "topology", "workers", "servers", "ina_tors"]
"""The columns that distinguish rows, besides the sweep's settings."""

_CELL = ["experiment", "job", "system", "varied"]
"""Those that a row has even if its cell could not be set up."""

_RUN = ["run", "experiment", "backend", "cell", "repeat"]
"""The columns that distinguish runs."""

_ALIKE = ["system", "workload", "workers", "servers", "iterations", "expected_jct_s"]
"""The columns in which jobs of one run are the same if only their hosts differ."""

_TITLES = {"closed_form": "closed form", "simulator": "simulator", "packets": "packets"}
_BACKENDS = {"simulator": "simulate", "packets": "packet"}


def strained_cells(experiment: Experiment) -> Iterator[str]:
    """The ids of the cells in which packets are lost on purpose or anything fails, or switches have
    few slots."""
    for cell in distinct(experiment):
        resolved = cell.experiment
        if resolved.emulation.is_impaired or build_fabric(resolved).slots < SLOTS:
            yield cell.id


def ladder(results: pd.DataFrame, strained: Collection[str] = ()) -> pd.DataFrame:
    """One row for each job of each cell: the seconds of an iteration in all four, and the errors.

    ``results`` is the table of results, ``strained`` the ids of its strained cells. The median over
    repeats counts; for the emulator, that is the median over valid rows or, if none ``is_valid``,
    over all. ``closed_form_error``, ``simulator_error`` and ``packets_error`` are relative to the
    emulator, as a ratio minus 1, and missing if it has no row. ``simulator_failed`` and
    ``packets_failed`` say whether a repeat has no time or is not valid.
    """
    results = results.assign(varied=results["settings"].map(_varied))
    bad = results[~is_valid(results)]
    table = _ordered(results[results["jct_s"].notna()])
    table["is_strained"] = table["cell"].isin(strained)
    table["iteration"] = table["jct_s"] / table["iterations"]
    table["closed_form"] = table["expected_jct_s"] / table["iterations"]
    keys = [*_SAME, "varied", "is_strained"]
    emulated = table["backend"] == "emulate"
    valid = emulated & is_valid(table)

    def iteration(rows: pd.DataFrame) -> pd.Series:
        return rows.groupby(keys)["iteration"].median()

    joined = table.groupby(keys)[["closed_form"]].median()
    for name, backend in _BACKENDS.items():
        joined[name] = iteration(table[table["backend"] == backend])
    certain = iteration(table[valid])
    joined["emulator"] = certain.reindex(joined.index).fillna(iteration(table[emulated]))
    joined["is_valid"] = joined.index.isin(certain.index)
    for name in _TITLES:
        joined[f"{name}_error"] = joined[name] / joined["emulator"] - 1
    joined = joined.reset_index()
    own = pd.MultiIndex.from_frame(joined[_CELL])
    for name, backend in _BACKENDS.items():
        failed = bad[bad["backend"] == backend]
        joined[f"{name}_failed"] = own.isin(pd.MultiIndex.from_frame(failed[_CELL]))
    return joined.sort_values(["varied", "job", "system"], ignore_index=True)


def _ordered(table: pd.DataFrame) -> pd.DataFrame:
    """The rows, with the jobs of one run that are alike numbered in the order of their times."""
    table = table.sort_values("jct_s", kind="stable")
    alike = table.groupby([*_RUN, *_ALIKE], dropna=False)["job"]
    table["job"] = alike.transform(lambda jobs: jobs.sort_values().to_numpy())
    return table


def _settings(text: object) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text) if isinstance(text, str) and text else {}
    return found


def _varied(settings: object) -> str:
    """A sweep's settings except the back end and the system."""
    return ", ".join(
        f"{path.rpartition('.')[2]}={value}"
        for path, value in sorted(_settings(settings).items())
        if path != "backend" and not path.endswith(".system")
    )


def is_met(rows: pd.DataFrame) -> bool:
    """Whether the emulator has valid rows and all errors are within the bounds."""
    return bool(_compared(rows).any()) and not _missed(rows)


def text(rows: pd.DataFrame) -> str:
    """The rows of `ladder` as lines, followed by the median and the largest errors."""
    lines = [
        f"{'system':18} {'workload':10} {'workers':>7} {'closed form':>11} {'simulator':>11}"
        f" {'packets':>11} {'emulator':>11}  {'closed form':>11} {'simulator':>11} {'packets':>11}"
        "  varied"
    ]
    for row in rows.itertuples():
        seconds = (row.closed_form, row.simulator, row.packets, row.emulator)
        errors = (row.closed_form_error, row.simulator_error, row.packets_error)
        doubt = " " if row.is_valid or pd.isna(row.emulator) else "?"
        lines.append(
            f"{row.system:18} {row.workload:10} {row.workers:7} "
            + " ".join("          -" if pd.isna(each) else f"{each:9.4f} s" for each in seconds)
            + f"{doubt} "
            + " ".join("          -" if pd.isna(each) else f"{each:+11.1%}" for each in errors)
            + f"  {row.varied}"
        )
    for is_strained, where in ((False, ""), (True, " with loss or few slots")):
        of_kind = rows[rows["is_strained"] == is_strained]
        doubtful = of_kind[~of_kind["is_valid"] & of_kind["emulator"].notna()]
        for what, mark, some in (("valid row", "", of_kind[of_kind["is_valid"]]),
                                 ("doubtful row", " (?)", doubtful)):  # fmt: skip
            for name, title in _TITLES.items():
                off = _errors(some, name)
                if len(off):
                    lines.append(
                        f"{title} against emulator{where}, {counted(len(off), what)}{mark}:"
                        f" median {off.median():.1%}, worst {off.max():.1%}"
                    )
    return "\n".join([*lines, _summary(rows)])


def _summary(rows: pd.DataFrame) -> str:
    wanted = "; ".join(
        f"{_rung(name, is_strained)} within {median:.0%} of the emulator in the median"
        f"{'' if worst is None else f', {worst:.0%} at worst'}"
        for (name, is_strained), (median, worst) in BOUNDS.items()
    )
    count = int(_compared(rows).sum())
    if not count:
        why = "valid row" if rows["emulator"].notna().any() else "row of the emulator"
        return f"ladder: UNDECIDED, no {why} to compare with; wanted {wanted}"
    missed = _missed(rows)
    found = f"MISSED ({', '.join(missed)})" if missed else "MET"
    return f"ladder: {found} on {count} of {len(rows)} rows (the valid ones); wanted {wanted}"


def _compared(rows: pd.DataFrame) -> pd.Series:
    """Which rows have a valid emulator and something to compare with it."""
    return rows["is_valid"] & rows[[*_BACKENDS]].notna().any(axis=1)


def _missed(rows: pd.DataFrame) -> list[str]:
    """The rungs whose errors exceed their bounds, and those that failed where the emulator did
    not."""
    missed = []
    for name in _BACKENDS:
        if failed := int((rows["is_valid"] & rows[f"{name}_failed"]).sum()):
            missed.append(f"{name} failed in {counted(failed, 'row')}")
    for (name, is_strained), (median, worst) in BOUNDS.items():
        off = _errors(rows[rows["is_valid"] & (rows["is_strained"] == is_strained)], name)
        if len(off) and (off.median() > median or (worst is not None and off.max() > worst)):
            missed.append(_rung(name, is_strained))
    return missed


def _rung(name: str, is_strained: bool) -> str:
    return f"{name} with loss or few slots" if is_strained else name


def _errors(rows: pd.DataFrame, name: str) -> pd.Series:
    return rows[f"{name}_error"].abs().dropna()
