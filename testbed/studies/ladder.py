"""Closed form, simulator and emulator side by side, from the tables of runs.

A row of the simulator and one of the emulator match if only the back end differs.
"""

from __future__ import annotations

import json

import pandas as pd

MEDIAN, WORST = 0.05, 0.10
"""The largest errors that are allowed for the simulator against the emulator."""

_SAME = ["experiment", "job", "system", "workload", "topology", "workers", "servers", "ina_tors"]
"""The columns that distinguish rows, besides the sweep's settings."""

_TITLES = {"closed_form": "closed form", "simulator": "simulator"}


def ladder(results: pd.DataFrame) -> pd.DataFrame:
    """One row for each job of each cell: seconds of an iteration in all three, and errors.

    ``results`` is the table of results. The median over repeats counts, for the emulator over valid
    rows and, where none ``is_valid``, over all. ``simulator_error`` and ``closed_form_error`` are
    relative to the emulator, as a ratio less 1, and missing where it has no row.
    """
    table = results[results["jct_s"].notna()].copy()
    table["varied"] = table["settings"].map(_varied)
    table["iteration"] = table["jct_s"] / table["iterations"]
    table["closed_form"] = table["expected_jct_s"] / table["iterations"]
    keys = [*_SAME, "varied"]
    emulated = table["backend"] == "emulate"
    valid = emulated & (table["verdict"] == "valid")

    def iteration(rows: pd.DataFrame) -> pd.Series:
        return rows.groupby(keys)["iteration"].median()

    joined = table.groupby(keys)[["closed_form"]].median()
    joined["simulator"] = iteration(table[table["backend"] == "simulate"])
    certain = iteration(table[valid])
    joined["emulator"] = certain.reindex(joined.index).fillna(iteration(table[emulated]))
    joined["is_valid"] = joined.index.isin(certain.index)
    for name in _TITLES:
        joined[f"{name}_error"] = joined[name] / joined["emulator"] - 1
    return joined.reset_index().sort_values(["varied", "job", "system"], ignore_index=True)


def _varied(settings: object) -> str:
    """A sweep's settings except the back end and the system."""
    chosen = json.loads(settings) if isinstance(settings, str) and settings else {}
    return ", ".join(
        f"{path.rpartition('.')[2]}={value}"
        for path, value in sorted(chosen.items())
        if path != "backend" and not path.endswith(".system")
    )


def is_met(rows: pd.DataFrame) -> bool:
    """Whether the emulator has valid rows and the simulator's errors are within the bounds."""
    off = _errors(rows[rows["is_valid"]], "simulator")
    return bool(len(off) and off.median() <= MEDIAN and off.max() <= WORST)


def text(rows: pd.DataFrame) -> str:
    """The rows of `ladder` as lines, followed by the median and the worst errors."""
    lines = [
        f"{'system':18} {'workload':10} {'workers':>7} {'closed form':>11} {'simulator':>11}"
        f" {'emulator':>11}  {'closed form':>11} {'simulator':>11}  varied"
    ]
    for row in rows.itertuples():
        seconds = (row.closed_form, row.simulator, row.emulator)
        errors = (row.closed_form_error, row.simulator_error)
        doubt = " " if row.is_valid or pd.isna(row.emulator) else "?"
        lines.append(
            f"{row.system:18} {row.workload:10} {row.workers:7} "
            + " ".join("          -" if pd.isna(each) else f"{each:9.4f} s" for each in seconds)
            + f"{doubt} "
            + " ".join("          -" if pd.isna(each) else f"{each:+11.1%}" for each in errors)
            + f"  {row.varied}"
        )
    doubtful = rows[~rows["is_valid"] & rows["emulator"].notna()]
    for what, some in (("valid rows", rows[rows["is_valid"]]), ("doubtful rows (?)", doubtful)):
        for name, title in _TITLES.items():
            off = _errors(some, name)
            if len(off):
                lines.append(
                    f"{title} against emulator, {len(off)} {what}:"
                    f" median {off.median():.1%}, worst {off.max():.1%}"
                )
    return "\n".join([*lines, _summary(rows)])


def _summary(rows: pd.DataFrame) -> str:
    wanted = f"simulator within {MEDIAN:.0%} of the emulator in the median, {WORST:.0%} at worst"
    count = len(_errors(rows[rows["is_valid"]], "simulator"))
    if not count:
        return f"ladder: UNDECIDED, no valid row; wanted {wanted}"
    found = "MET" if is_met(rows) else "MISSED"
    return f"ladder: {found} on {count} of {len(rows)} rows (the valid ones); wanted {wanted}"


def _errors(rows: pd.DataFrame, name: str) -> pd.Series:
    return rows[f"{name}_error"].abs().dropna()
