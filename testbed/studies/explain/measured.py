"""Explains rows of the emulator and the simulator by what was measured in these runs."""

from __future__ import annotations

from collections.abc import Iterator
from math import isnan
from pathlib import Path
from typing import Any

import pandas as pd

from testbed import results, run_tables
from testbed.deployment.experiments import read
from testbed.experiment.cells import expand
from testbed.experiment.schema import Experiment
from testbed.placement.fabric import build_fabric
from testbed.report import parts
from testbed.studies.explain.words import imbalances, unevenness

_UNKNOWN = {
    "emulate": (
        "not known: the emulator's tables have no queues, drops, slots or rates of single links"
        " over time. So the last part may be loss and its recovery, faults, windows, slots, a"
        " switch's capacity or the machine's own delays. If the verdict is not valid, the machine"
        " is one of the causes. A run of the same file with backend: packet separates them."
    ),
    "simulate": (
        "not known: the simulator has no packets, so no loss, queue, slot or window costs time; the"
        " last part comes from flows that share links in other ways than the closed form assumes."
    ),
}


def lines(run: Path, rows: pd.DataFrame) -> Iterator[str]:
    """The explanation of each of ``rows`` of a run."""
    tables = run_tables.read([run])
    cells = {cell.id: cell.experiment for cell in expand(read(run / results.EXPERIMENT))}
    for row in rows.itertuples():
        yield (
            f"{row.cell}  {row.system} {row.workload}, {row.workers} workers on {row.topology}"
            f" ({row.backend}): JCT {row.jct_s:.3g} s, {row.jct_s / row.expected_jct_s:.3g} times"
            " its closed form"
        )
        found = parts.parts(row, tables.iterations)
        titles = ("compute", "plan's busiest link", "ECMP, retransmitted", "other")
        for title, seconds in zip(titles, found, strict=True):
            if isnan(seconds):
                yield f"  {title:19} {'–':>9}    not measured for this job alone; in the last part"
            else:
                yield f"  {title:19} {seconds:9.4g} s {seconds / row.jct_s:6.1%}"
        known = sum(seconds for seconds in found if not isnan(seconds))
        yield f"  {'sum':19} {known:9.4g} s {1:6.1%}"
        yield from _seen(row, tables, cells.get(row.cell))
        yield _UNKNOWN.get(row.backend, "")
        yield ""


_UNEVEN = 1.1
"""A link gets a sentence if it carries this many times the mean of equal links."""
_SLOW = 1.5
"""An iteration gets a sentence if it takes this many times the median."""


def _seen(row: Any, tables: run_tables.Tables, experiment: Experiment | None) -> Iterator[str]:
    def own(table: pd.DataFrame) -> pd.DataFrame:
        return table[(table["cell"] == row.cell) & (table["repeat"] == row.repeat)]

    links = own(tables.links)
    if len(links):
        busiest = links.loc[links["busy"].idxmax()]
        yield (
            f"busiest link: {busiest['source']}>{busiest['target']}, {busiest['busy']:.0%} of the"
            f" time at {busiest['rate_gbit_s']:g} Gbit/s."
        )
        sent = {(link.source, link.target): link.bytes for link in links.itertuples()}
        uneven = imbalances(build_fabric(experiment), sent) if experiment is not None else []
        if uneven and uneven[0][0] > _UNEVEN:
            yield f"ECMP: {unevenness(uneven[0])}"
    if experiment is not None and len(experiment.jobs) > 1:
        yield (
            f"other jobs: {len(experiment.jobs)} ran at once, and a link's bytes are those of all"
            " jobs; what they cost one another is in the last part."
        )
    iterations = own(tables.iterations)
    iterations = iterations[iterations["job"] == row.job]
    yield from _iterations(iterations, row.jct_s)
    computed = iterations["compute_end_s"] - iterations["start_s"] - iterations["stalled_s"]
    by_rank = computed.groupby(iterations["rank"]).sum()
    if len(by_rank) and (middle := by_rank.median()) and by_rank.max() > 1.05 * middle:
        yield (
            f"stragglers: rank {by_rank.idxmax()} computes {by_rank.max() / middle:.3g} times as"
            " long as the median."
        )
    if signs := parts.signs(row):
        yield f"counters: {signs}."
    if isinstance(row.verdict, str) and row.verdict != "valid":
        yield f"verdict: {row.verdict}."


def _iterations(iterations: pd.DataFrame, jct_s: float) -> Iterator[str]:
    """Which worker ended last, and the slowest iteration, from one last sum to the next."""
    if not len(iterations):
        return
    last = iterations.loc[iterations["end_s"].idxmax()]
    said = f"iterations: rank {last['rank']} ends last"
    ends = iterations.groupby("iteration")["end_s"].max().sort_index()
    took = ends.diff().fillna(jct_s - ends.max() + ends)  # the first begins as the job's time does
    if len(took) > 2 and took.max() > _SLOW * (middle := took.median()) > 0:
        said += (
            f"; number {took.idxmax()} takes {took.max():.3g} s, {took.max() / middle:.3g} times as"
            f" long as the median of {len(took)}"
        )
    yield f"{said}."
