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
from testbed.report.bars import Panel, Panels, SeriesStyles
from testbed.report.data import INVALID
from testbed.report.settings import SERIES, SETTING

_COMPUTE, _STALLED = "#c9d3de", "#e6ab02"
_MOST_WORKERS = 16
_GAP = 3
"""Empty lines between two systems."""
_TIMES = ["start_s", "compute_end_s", "end_s"]
_RUN = ["run", "cell", "repeat", "job"]


def measured(panels: Panels, rows: pd.DataFrame, iterations: pd.DataFrame) -> Panels:
    """The iterations behind each panel of bars, with ``length_s`` and ``is_shown``.

    ``rows`` are those that count, or all rows of a series if none counts.
    """
    keys = [*SETTING, "ina", *SERIES]
    together = iterations.drop(columns=["system", "workload"]).merge(rows[[*_RUN, *keys]], on=_RUN)
    # An iteration may begin before the previous one's last sum: it lasts from that sum to its own.
    before = together.groupby([*_RUN, "rank"])["end_s"].shift().fillna(0.0)
    together["length_s"] = together["end_s"] - together["start_s"].clip(lower=before)
    behind = []
    for title, part in panels:
        # Systems that do not aggregate may have been measured at another place of INA.
        stand = part[[*SETTING, *SERIES, "shown", "moved", "ina"]]
        at = stand[~stand["moved"]].drop(columns=["moved"]).merge(together, on=keys)
        moved = stand[stand["moved"]].drop(columns=["moved", "ina"])
        found = pd.concat([at, moved.merge(together, on=[*SETTING, *SERIES])])
        if len(found):
            behind.append((title, found.assign(is_shown=found["shown"] != INVALID)))
    return behind


def drawn(panel: Panel, styles: SeriesStyles) -> Figure:
    """A block for each system: its workers in one measured iteration, all on one axis of time.

    If its workers do not wait for one another, as much of theirs as fits the others' axis.
    """
    title, found = panel
    runs = {
        key: _one(found[(found["system"] == key[0]) & (found["variant"] == key[1])], style.waits)
        for key, style in styles.items()
    }
    runs = {key: rows for key, rows in runs.items() if len(rows)}
    waiting = [rows for key, rows in runs.items() if styles[key].waits] or list(runs.values())
    last = max(rows["end_s"].max() for rows in waiting)
    workers = {key: rows["rank"].max() + 1 for key, rows in runs.items()}
    lines = sum(workers.values()) + _GAP * len(runs)
    figure, (axes,) = canvas.panels(
        [title], height=max(1.2, 0.035 * lines), left=1.0, wide=True,
        legend=_legend(pd.concat(runs.values())),
    )  # fmt: skip
    top, ticks = 0.0, []
    for key, rows in runs.items():
        shown = rows if styles[key].waits else rows[(rows["start_s"] < last) & (rows["end_s"] > 0)]
        _workers(axes, shown.assign(line=shown["rank"] + top), styles[key].colour)
        ticks.append(top + (workers[key] - 1) / 2)
        top += workers[key] + _GAP
    axes.set_yticks(ticks, [styles[key].title.replace(", ", ",\n") for key in runs])
    axes.tick_params(axis="y", length=0)
    axes.set_xlim(0, last * 1.01)
    axes.set_ylim(top - _GAP - 0.4, -0.6)
    axes.set_xlabel("time in the iteration (s)", labelpad=1)
    axes.grid(visible=False, axis="y")
    axes.grid(visible=True, axis="x")
    return figure


def _legend(rows: pd.DataFrame) -> list[Patch]:
    # Older runs recorded how long forward passes waited, but not when.
    placed, waited = rows["stalls"].map(bool), rows["stalled_s"] > 0
    older = ", in older runs with stalls" if (waited & ~placed).any() else ""
    entries = [Patch(color=_COMPUTE, label=f"compute{older}")]
    if (waited & placed).any():
        entries.append(Patch(color=_STALLED, label="forward pass waits for sums"))
    return [*entries, Patch(color="#555555", label="communication after compute")]


def _one(rows: pd.DataFrame, waits: bool) -> pd.DataFrame:
    """The first run's middle iteration, with times from its start.

    All iterations, with the same zero, where workers do not wait: they are not in step.
    """
    if not len(rows):
        return rows
    for name in _RUN:
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


def _workers(axes: Axes, rows: pd.DataFrame, colour: str) -> None:
    lines = rows["line"]
    _bars(axes, zip(rows["start_s"], rows["compute_end_s"], lines, strict=True), _COMPUTE)
    _bars(axes, zip(rows["compute_end_s"], rows["end_s"], lines, strict=True), colour)
    stalls = [
        (*span, line) for spans, line in zip(rows["spans"], lines, strict=True) for span in spans
    ]
    _bars(axes, stalls, _STALLED)


def _bars(axes: Axes, bars: Iterable[tuple[float, float, float]], colour: str) -> None:
    """A bar on its line for each (start, end, line)."""
    corners = [
        [(begun, y - 0.43), (ended, y - 0.43), (ended, y + 0.43), (begun, y + 0.43)]
        for begun, ended, y in bars
    ]
    axes.add_collection(PolyCollection(corners, facecolors=colour))
