"""The timeline of each worker in one iteration, and the lengths of iterations."""

from __future__ import annotations

import json
from collections.abc import Iterable

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from testbed.report import canvas
from testbed.report.data import INVALID
from testbed.report.panels import Panel, Panels, SeriesStyles, seconds
from testbed.report.settings import ROW, SERIES, SETTING

COMPUTE, STALLED = "#e4e4e0", "#e6ab02"
_MOST_WORKERS = 16
_TIMES = ["start_s", "compute_end_s", "end_s"]


def measured(panels: Panels, rows: pd.DataFrame, iterations: pd.DataFrame) -> Panels:
    """The iterations behind each panel of bars, with the columns ``length_s`` and ``is_shown``.

    ``rows`` are those that count, or all rows of a series if none counts.
    """
    keys = [*SETTING, "ina", *SERIES]
    together = iterations.drop(columns=["system", "workload"]).merge(rows[[*ROW, *keys]], on=ROW)
    # An iteration may begin before the previous one's last sum: it lasts from that sum to its own.
    before = together.groupby([*ROW, "rank"])["end_s"].shift().fillna(0.0)
    together["length_s"] = together["end_s"] - together["start_s"].clip(lower=before)
    behind = []
    for title, part in panels:
        # Systems that do not aggregate may have been measured with INA at another place.
        stand = part[[*SETTING, *SERIES, "shown", "moved", "ina"]]
        at = stand[~stand["moved"]].drop(columns=["moved"]).merge(together, on=keys)
        moved = stand[stand["moved"]].drop(columns=["moved", "ina"])
        found = pd.concat([at, moved.merge(together, on=[*SETTING, *SERIES])])
        if len(found):
            behind.append(Panel(title, found.assign(is_shown=found["shown"] != INVALID)))
    return behind


def drawn(panel: Panel, styles: SeriesStyles) -> Figure:
    """A panel for each system: its workers in one measured iteration, all on one scale of time.

    If a system's workers do not wait for one another, only what fits on the others' axis is shown.
    """
    title, found = panel
    runs = {
        key: _one(found[(found["system"] == key[0]) & (found["variant"] == key[1])], style.waits)
        for key, style in styles.items()
    }
    runs = {key: rows for key, rows in runs.items() if len(rows)}
    waiting = [rows for key, rows in runs.items() if styles[key].waits] or list(runs.values())
    last = max(rows["end_s"].max() for rows in waiting)
    workers = max(rows["rank"].max() + 1 for rows in runs.values())
    first = title.split("\n")[0]
    figure, all_axes = canvas.panels(
        [f"{styles[key].title}\n{first}" for key in runs], height=max(0.5, 0.07 * workers),
        legend=_legend(pd.concat(runs.values())), facets=[panel.facets] * len(runs),
    )  # fmt: skip
    for axes, (key, rows) in zip(all_axes, runs.items(), strict=True):
        shown = rows if styles[key].waits else rows[(rows["start_s"] < last) & (rows["end_s"] > 0)]
        _workers(axes, shown, styles[key].colour, key[0])
        ends = sorted({0, int(rows["rank"].max())})
        axes.set_yticks(ends, [f"rank {rank}" for rank in ends])
        axes.tick_params(axis="y", length=0)
        canvas.set_scale(axes, "x", (0, last * 1.01, False))
        axes.set_ylim(workers - 0.4, -0.6)
        axes.set_xlabel("time in the iteration (s)", labelpad=1)
        axes.grid(visible=False, axis="y")
        axes.grid(visible=True, axis="x")
    return figure


def _legend(rows: pd.DataFrame) -> list[Patch]:
    # Older runs recorded how long forward passes waited, but not when.
    placed, waited = rows["stalls"].map(bool), rows["stalled_s"] > 0
    older = ", in older runs with stalls" if (waited & ~placed).any() else ""
    entries = [Patch(color=COMPUTE, label=f"compute{older}")]
    if (waited & placed).any():
        entries.append(Patch(color=STALLED, label="forward pass waits for sums"))
    return [*entries, Patch(color="#555555", label="communication after compute")]


def _one(rows: pd.DataFrame, waits: bool) -> pd.DataFrame:
    """The first run's middle iteration, with times from its start.

    If workers do not wait, all iterations with the same zero, because workers do not keep step.
    """
    if not len(rows):
        return rows
    for name in ROW:
        rows = rows[rows[name] == rows[name].iloc[0]]
    rows = rows[rows["rank"] < _MOST_WORKERS]
    middle = rows[rows["iteration"] == rows["iteration"].max() // 2]
    start = middle["start_s"].min() if waits else middle["start_s"].median()
    shown = middle if waits else rows
    spans = [json.loads(own or "[]") for own in shown["stalls"]]
    return shown.assign(
        spans=[[(begun - start, ended - start) for begun, ended in own] for own in spans],
        **{name: shown[name] - start for name in _TIMES},
    )


def _workers(axes: Axes, rows: pd.DataFrame, colour: str, system: str) -> None:
    """A line for each rank, whose tooltip has the times."""
    for rank, own in rows.groupby("rank"):
        last = own.iloc[-1]
        text = f"rank {rank}: compute ends at {seconds(last['compute_end_s'])}, "
        text += f"the last sum arrives at {seconds(last['end_s'])}"
        for spans, its in (
            (zip(own["start_s"], own["compute_end_s"], strict=True), COMPUTE),
            (zip(own["compute_end_s"], own["end_s"], strict=True), colour),
            ([span for each in own["spans"] for span in each], STALLED),
        ):
            if parts := [(*span, rank) for span in spans]:
                drawn = bars(axes, parts, its)
                canvas.note(drawn, "mark", system=system, words=text)


def bars(
    axes: Axes, parts: Iterable[tuple[float, float, float]], colour: str, high: float = 0.86
) -> PolyCollection:
    """A bar for each (start, end, line), whose height is the share ``high`` of a line."""
    half = high / 2
    corners = [
        [(begun, y - half), (ended, y - half), (ended, y + half), (begun, y + half)]
        for begun, ended, y in parts
    ]
    drawn = PolyCollection(corners, facecolors=colour)
    axes.add_collection(drawn)
    return drawn
