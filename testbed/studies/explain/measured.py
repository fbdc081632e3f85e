"""Rows of the emulator and the simulator, explained by what was measured of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from testbed import results
from testbed.report import parts

_UNKNOWN = {
    "emulate": (
        "The emulator records no queues, drops, slots or rates of single links over time. So the"
        " last part holds loss and its recovery, windows, slots, a switch's capacity, and the"
        " machine's own delays, which cannot be told apart; an invalid verdict says that the"
        " machine is among them. A run with backend: packet of the same file tells them apart."
    ),
    "simulate": (
        "The simulator has no packets, so nothing is lost and no queue, slot or window costs time;"
        " the last part is flows that share links in other ways than the closed form's."
    ),
}


def lines(run: Path, rows: pd.DataFrame) -> Iterator[str]:
    """The explanation of each of ``rows`` of a run."""
    tables = results.read([run])
    for row in rows.itertuples():
        yield (
            f"{row.cell}  {row.system} {row.workload}, {row.workers} workers on {row.topology}"
            f" ({row.backend}): JCT {row.jct_s:.3g} s, {row.jct_s / row.expected_jct_s:.3g} times"
            " its closed form"
        )
        found = parts.parts(row, tables.iterations)
        titles = ("compute", "plan's busiest link", "ECMP, sent again", "other")
        for title, seconds in zip(titles, found, strict=True):
            yield f"  {title:19} {seconds:9.4g} s {seconds / row.jct_s:6.1%}"
        yield f"  {'sum':19} {sum(found):9.4g} s {1:6.1%}"
        yield from _seen(row, tables)
        yield _UNKNOWN.get(row.backend, "")
        yield ""


def _seen(row: Any, tables: results.Tables) -> Iterator[str]:
    def own(table: pd.DataFrame) -> pd.DataFrame:
        return table[(table["cell"] == row.cell) & (table["repeat"] == row.repeat)]

    links = own(tables.links)
    if len(links):
        busiest = links.loc[links["busy"].idxmax()]
        yield (
            f"busiest link: {busiest['source']}>{busiest['target']}, {busiest['busy']:.0%} of the"
            f" time at {busiest['rate_gbit_s']:g} Gbit/s."
        )
    iterations = own(tables.iterations)
    iterations = iterations[iterations["job"] == row.job]
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
