"""Bar charts: a bar for each system, a panel for each setting, where the most ToRs aggregate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from testbed.report import canvas
from testbed.report.backends import SIMULATED
from testbed.report.data import INVALID, MIXED, VALID, fullest, where
from testbed.report.settings import PLACE, SETTING
from testbed.report.system_style import Series, SystemStyle

_FEW = 5
"""The most repeats that are shown as dots."""
SeriesStyles = Mapping[Series, SystemStyle]
Panel = tuple[str, pd.DataFrame]
"""The title of a setting, and its rows of a summary."""
Panels = Sequence[Panel]


def settings(table: pd.DataFrame) -> Panels:
    """Title and rows of each setting where the most ToRs aggregate; most systems first."""
    found = []
    for key, group in fullest(table).groupby([*SETTING, *PLACE], sort=True):
        place = dict(zip([*SETTING, *PLACE], key, strict=True))
        found.append((headed(place), group.sort_values(["order", "variant"])))
    return sorted(found, key=lambda each: -len(each[1]))[: canvas.MOST_PANELS]


def headed(place: Mapping[str, Any]) -> str:
    """A setting as a title of several short lines."""
    workload, _, rest = where(place).partition(", ")
    words = rest.split(", ")
    lines, width = [workload], 50
    for word in words:
        if len(lines) > 1 and len(lines[-1]) + len(word) < width:
            lines[-1] += f", {word}"
        else:
            lines.append(word)
    return "\n".join(lines)


def times(panels: Panels, styles: SeriesStyles) -> Figure:
    """JCT with intervals."""
    return _drawn(panels, styles, "jct", "jct_s", "JCT (s)")


def speed_up(
    panels: Panels, ratios: pd.DataFrame, reference: str, title: str, styles: SeriesStyles
) -> Figure | None:
    """Speed-up over ``reference``, with intervals; None if no setting has a valid row of it."""
    names = [*SETTING, "ina", "system", "variant"]
    ratios = ratios[[*names, *(f"{reference}{end}" for end in ("", "_low", "_high"))]]
    ratios = ratios.dropna(subset=reference)
    joined = [(title, part.merge(ratios, on=names)) for title, part in panels]
    joined = [(title, part) for title, part in joined if len(part) > 1]
    if not joined:
        return None
    figure = _drawn(joined, styles, reference, reference, f"speed-up over {title}")
    for axes in figure.axes:
        axes.axhline(1, color="black", linewidth=0.8)
    return figure


def exposed(panels: Panels, styles: SeriesStyles) -> Figure:
    """An iteration: compute with hidden communication in grey, exposed communication above."""
    figure = _drawn(panels, styles, "", "iteration_s", "iteration (s)")
    for axes, (_, part) in zip(figure.axes, panels, strict=True):
        hidden = (part["iteration_s"] - part["exposed_s"]).clip(lower=0)
        axes.bar(range(len(part)), hidden, 0.8, color="#dfe4ea", edgecolor="white")
    return figure


def _drawn(panels: Panels, styles: SeriesStyles, value: str, column: str, label: str) -> Figure:
    most = max(len(part) for _, part in panels)
    names = [styles[key].title.replace(", ", ",\n") for key in styles]
    longest = max(len(line) for name in names for line in name.split("\n"))
    hatched = any((part["shown"] != VALID).any() for _, part in panels)
    figure, all_axes = canvas.panels(
        [title for title, _ in panels],
        below=0.2 + longest * 0.038,
        wide=most > 14,
        legend=[canvas.not_valid()] if hatched else [],
    )
    for axes, (_, part) in zip(all_axes, panels, strict=True):
        _panel(axes, part, styles, value, column)
        axes.set_xlim(-0.6, max(len(part), most / 2, 3) - 0.4)
        axes.set_ylabel(label)
    return figure


def _panel(axes: Axes, part: pd.DataFrame, styles: SeriesStyles, value: str, column: str) -> None:
    own = [styles[key] for key in zip(part["system"], part["variant"], strict=True)]
    heights = part[column].to_numpy(float)
    at, tops = np.arange(len(part)), heights.copy()
    for shown, strength in ((VALID, 1.0), (MIXED, 1.0), (INVALID, 0.5)):
        such = np.flatnonzero(part["shown"] == shown)
        if len(such):
            axes.bar(
                such, heights[such], 0.8, color=[own[place].colour for place in such],
                edgecolor="white", hatch="" if shown == VALID else canvas.HATCH, alpha=strength,
            )  # fmt: skip
    if f"{value}_low" in part:
        low, high = (part[f"{value}_{end}"].to_numpy(float) for end in ("low", "high"))
        known = ~np.isnan(low)
        ends = np.clip([heights - low, high - heights], 0, None)[:, known]
        axes.errorbar(
            at[known], heights[known], ends, color="black", linestyle="", elinewidth=0.8,
            capsize=2, capthick=0.8,
        )  # fmt: skip
        tops[known] = np.maximum(tops, high)[known]
    if value == "jct":
        few = [
            (place, time)
            for place, times in enumerate(part["times"])
            if 1 < len(times) <= _FEW and part["backend"].iloc[0] != SIMULATED
            for time in times
        ]
        axes.plot(*np.reshape(few, (-1, 2)).T, ".", color="black", markersize=1.5)
        tops = np.maximum(tops, [times.max() for times in part["times"]])
    for place, (top, height) in enumerate(zip(tops, heights, strict=True)):
        axes.text(place, top, f"{height:.3g}\n", ha="center", va="center", fontsize=5.5)
    names = [style.title.replace(", ", ",\n") for style in own]
    axes.set_xticks(at, names, rotation=40, ha="right", rotation_mode="anchor")
    axes.tick_params(axis="x", length=0, pad=2)
    axes.margins(y=0.12)
