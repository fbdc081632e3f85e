"""Where the time of a row went, as far as tables show it: no run is repeated."""

from __future__ import annotations

from math import isnan
from typing import Any, NamedTuple

import pandas as pd

from testbed.report import names
from testbed.report.settings import ROW
from testbed.report.system_style import Titles
from testbed.report.tables import Table, number
from testbed.results import ITERATIONS
from testbed.run_tables import Unreadable
from testbed.workload.catalogue import title

SLOWEST = 5
"""How many cells a report explains."""

_PATIENT = 1.02
"""A row needs an explanation if it takes more than this many times its closed form."""


class Parts(NamedTuple):
    """Parts of a JCT, in seconds; those that are known add up to it.

    Attributes:
        compute: computation of the worker that ended last.
        plan: what the closed form adds for the plan's busiest link and its steps.
        ecmp: what the measured bytes on the busiest link add to that: ECMP's imbalance, and
            retransmissions; nan if they were not measured, as for several jobs.
        other: the rest, which tables do not explain.
    """

    compute: float
    plan: float
    ecmp: float
    other: float


def parts(row: Any, iterations: pd.DataFrame) -> Parts:
    """The parts of a row of results. ``iterations`` has all iterations of its runs; raises
    Unreadable if none is the row's."""
    own = iterations
    for key in ROW:
        own = own[own[key] == getattr(row, key)]
    if not len(own):
        raise Unreadable(
            f"{row.run}: found no iteration of cell {row.cell}, repeat {row.repeat}, in"
            f" {ITERATIONS}, wanted what `run` wrote"
        )
    last = own[own["rank"] == own.loc[own["end_s"].idxmax(), "rank"]]
    compute = float((last["compute_end_s"] - last["start_s"] - last["stalled_s"]).sum())
    expected = float(row.expected_jct_s)
    routed = float(row.routed_jct_s)
    ecmp = routed if isnan(routed) else max(0.0, routed - expected)  # max would drop the nan
    known = expected if isnan(ecmp) else expected + ecmp
    return Parts(compute, expected - compute, ecmp, float(row.jct_s) - known)


def signs(row: Any) -> str:
    """What the row's counters say about the rest."""
    said = []
    for count, what in (
        (row.retransmitted, "retransmissions"),
        (row.collisions, "collisions at slots"),
        (row.switch_duplicates, "duplicates at switches"),
        (row.switch_refused, "packets refused by switches"),
    ):
        if pd.notna(count) and count > 0:
            said.append(f"{int(count)} {what}")
    return "; ".join([*said, *([row.notes] if isinstance(row.notes, str) and row.notes else [])])


def slowest(rows: pd.DataFrame, iterations: pd.DataFrame, titles: Titles) -> Table:
    """The cells in packets that are furthest above their closed form, and where their time went."""
    columns = ["system", "JCT (s)", "compute", "plan", "ECMP", "other", "cell", "seen"]
    columns += ["workload", "workers", "fabric", "conditions", "INA"]
    able = rows[(rows["backend"] == "packet") & rows["jct_s"].notna()]
    able = able.merge(iterations[ROW].drop_duplicates(), on=ROW)
    able = able.assign(over=able["jct_s"] / able["expected_jct_s"])
    able = able[able["over"] > _PATIENT].sort_values("over", ascending=False, kind="stable")
    able = able.drop_duplicates(["run", "cell"]).head(SLOWEST)
    return columns, [
        [
            titles[row.system, row.variant],
            number(row.jct_s),
            *map(number, parts(row, iterations)),
            row.cell,
            signs(row),
            title(row.workload),
            str(row.workers),
            names.fabric(row.fabric),
            names.settings(row.conditions),
            row.ina,
        ]
        for row in able.itertuples()
    ]
