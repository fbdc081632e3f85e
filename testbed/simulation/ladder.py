"""Closed form, simulator and emulator side by side, from the tables that runs left.

    python -m testbed.simulation.ladder results/ladder/*

A row of the simulator and one of the emulator belong together if nothing but the back end differs.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

import pandas as pd

from testbed.results import read

_SAME = ["experiment", "job", "system", "workload", "topology", "workers", "servers", "ina_tors"]
"""Besides the sweep's settings, what tells rows apart."""


def ladder(results: pd.DataFrame) -> pd.DataFrame:
    """One row for each job of each cell: seconds of an iteration in all three, and errors.

    ``results`` is the table of results. Of repeats the median counts; of the emulator's rows those
    that are valid. ``simulator_error`` and ``closed_form_error`` are against the emulator, as a
    ratio less 1, and missing where there is no valid row of it.
    """
    table = results[results["jct_s"].notna()].copy()
    table["varied"] = table["settings"].map(_varied)
    table["iteration"] = table["jct_s"] / table["iterations"]
    table["closed_form"] = table["expected_jct_s"] / table["iterations"]
    keys = [*_SAME, "varied"]
    valid = (table["backend"] == "simulate") | (table["verdict"] == "valid")
    times = (
        table[valid]
        .pivot_table(index=keys, columns="backend", values="iteration", aggfunc="median")
        .reindex(columns=["simulate", "emulate"])
        .rename(columns={"simulate": "simulator", "emulate": "emulator"})
    )
    closed = table.groupby(keys)["closed_form"].median()
    joined = closed.to_frame().join(times).reset_index()
    joined["simulator_error"] = joined["simulator"] / joined["emulator"] - 1
    joined["closed_form_error"] = joined["closed_form"] / joined["emulator"] - 1
    return joined.sort_values(["varied", "job", "system"], ignore_index=True)


def _varied(settings: object) -> str:
    """A sweep's settings but for those that name the back end and the system."""
    chosen = json.loads(settings) if isinstance(settings, str) and settings else {}
    return ", ".join(
        f"{path.rpartition('.')[2]}={value}"
        for path, value in sorted(chosen.items())
        if path != "backend" and not path.endswith(".system")
    )


def text(rows: pd.DataFrame) -> str:
    """The rows of `ladder` as lines, and below them the medians and the worst of all errors."""
    lines = [
        f"{'system':18} {'workload':10} {'workers':>7} {'closed form':>11} {'simulator':>11}"
        f" {'emulator':>11} {'closed form':>11} {'simulator':>11}  varied"
    ]
    for row in rows.itertuples():
        seconds = (row.closed_form, row.simulator, row.emulator)
        errors = (row.closed_form_error, row.simulator_error)
        lines.append(
            f"{row.system:18} {row.workload:10} {row.workers:7} "
            + " ".join("          -" if pd.isna(each) else f"{each:9.4f} s" for each in seconds)
            + " "
            + " ".join("          -" if pd.isna(each) else f"{each:+11.1%}" for each in errors)
            + f"  {row.varied}"
        )
    for name in ("closed_form", "simulator"):
        off = rows[f"{name}_error"].abs().dropna()
        if len(off):
            lines.append(
                f"{name.replace('_', ' ')} against emulator, {len(off)} rows:"
                f" median {off.median():.1%}, worst {off.max():.1%}"
            )
    return "\n".join(lines)


def main(directories: Sequence[str]) -> None:
    """Print the ladder of all runs in or below ``directories``."""
    print(text(ladder(read(directories).results)))


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except FileNotFoundError as error:
        sys.exit(str(error))
