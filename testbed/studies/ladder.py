"""Closed form, simulator and emulator side by side, from the tables that runs left.

A row of the simulator and one of the emulator belong together if nothing but the back end differs.
"""

from __future__ import annotations

import json

import pandas as pd

MEDIAN, WORST = 0.05, 0.10
"""What the simulator's errors against the emulator are to be, at most."""

_SAME = ["experiment", "job", "system", "workload", "topology", "workers", "servers", "ina_tors"]
"""Besides the sweep's settings, what tells rows apart."""

_TITLES = {"closed_form": "closed form", "simulator": "simulator"}


def ladder(results: pd.DataFrame) -> pd.DataFrame:
    """One row for each job of each cell: seconds of an iteration in all three, and errors.

    ``results`` is the table of results. Of repeats the median counts; of the emulator's rows those
    that are valid and, where none ``is_valid``, all. ``simulator_error`` and ``closed_form_error``
    are against the emulator, as a ratio less 1, and missing where it has no row.
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
    """A sweep's settings but for those that name the back end and the system."""
    chosen = json.loads(settings) if isinstance(settings, str) and settings else {}
    return ", ".join(
        f"{path.rpartition('.')[2]}={value}"
        for path, value in sorted(chosen.items())
        if path != "backend" and not path.endswith(".system")
    )


def is_met(rows: pd.DataFrame) -> bool:
    """Whether the simulator is as near to the emulator's valid rows, and there are any."""
    off = _errors(rows[rows["is_valid"]], "simulator")
    return bool(len(off) and off.median() <= MEDIAN and off.max() <= WORST)


def text(rows: pd.DataFrame) -> str:
    """The rows of `ladder` as lines, and below them the medians and the worst of all errors."""
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
    return f"ladder: {found} on {count} of {len(rows)} rows, which are valid; wanted {wanted}"


def _errors(rows: pd.DataFrame, name: str) -> pd.Series:
    return rows[f"{name}_error"].abs().dropna()
