"""Bars: one for each system, a panel for each setting, where the most ToRs aggregate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from testbed.report import canvas
from testbed.report.data import INVALID, SIMULATED, VALID, fullest, where
from testbed.report.look import Look, Series
from testbed.report.settings import PLACE, SETTING

_FEW = 5
"""Repeats up to which each is shown as a dot."""
SeriesLooks = Mapping[Series, Look]
Panel = tuple[str, pd.DataFrame]


def settings(table: pd.DataFrame) -> list[Panel]:
    """Title and rows of each setting, where most ToRs aggregate, those with most systems first."""
    found = []
    for key, group in fullest(table).groupby([*SETTING, *PLACE], sort=True):
        place = dict(zip([*SETTING, *PLACE], key, strict=True))
        found.append((headed(place), group.sort_values(["order", "variant"])))
    return sorted(found, key=lambda each: -len(each[1]))[: canvas.MOST_PANELS]


def headed(place: Mapping[str, Any]) -> str:
    """A setting in two lines."""
    workload, _, rest = where(place).partition(", ")
    words = rest.split(", ")
    lines, width = [workload], 50
    for word in words:
        if len(lines) > 1 and len(lines[-1]) + len(word) < width:
            lines[-1] += f", {word}"
        else:
            lines.append(word)
    return "\n".join(lines)


def times(table: pd.DataFrame, looks: SeriesLooks) -> Figure:
    """JCT with intervals."""
    return _drawn(settings(table), looks, "jct", "jct_s", "JCT (s)")


def speed_up(table: pd.DataFrame, ratios: pd.DataFrame, looks: SeriesLooks) -> Figure | None:
    """Over ring, with intervals; None where no setting has a valid ring."""
    names = [*SETTING, "ina", "system", "variant"]
    ratios = ratios[[*names, "ring", "ring_low", "ring_high"]].dropna(subset="ring")
    joined = [(title, part.merge(ratios, on=names)) for title, part in settings(table)]
    joined = [(title, part) for title, part in joined if len(part) > 1]
    if not joined:
        return None
    figure = _drawn(joined, looks, "ring", "ring", "speed-up over ring")
    for axes in figure.axes:
        axes.axhline(1, color="black", linewidth=0.8)
    return figure


def exposed(table: pd.DataFrame, looks: SeriesLooks) -> Figure:
    """An iteration: what compute hides in grey, communication that it does not hide above."""
    figure = _drawn(settings(table), looks, "", "iteration_s", "iteration (s)")
    for axes, (_, part) in zip(figure.axes, settings(table), strict=True):
        hidden = (part["iteration_s"] - part["exposed_s"]).clip(lower=0)
        axes.bar(range(len(part)), hidden, 0.8, color="#dfe4ea", edgecolor="white")
    return figure


def _drawn(panels: list[Panel], looks: SeriesLooks, value: str, column: str, label: str) -> Figure:
    most = max(len(part) for _, part in panels)
    names = [looks[key].title.replace(", ", ",\n") for key in looks]
    longest = max(len(line) for name in names for line in name.split("\n"))
    hatched = any((part["shown"] != VALID).any() for _, part in panels)
    figure, all_axes = canvas.panels(
        [title for title, _ in panels],
        below=0.2 + longest * 0.038,
        wide=most > 14,
        legend=[canvas.not_valid()] if hatched else [],
    )
    for axes, (_, part) in zip(all_axes, panels, strict=True):
        _panel(axes, part, looks, value, column)
        axes.set_xlim(-0.6, max(len(part), most / 2, 3) - 0.4)
        axes.set_ylabel(label)
    return figure


def _panel(axes: Axes, part: pd.DataFrame, looks: SeriesLooks, value: str, column: str) -> None:
    ticks = []
    for at, row in enumerate(part.to_dict("records")):
        look, height = looks[row["system"], row["variant"]], row[column]
        whole = row["shown"] == VALID
        axes.bar(
            at, height, 0.8, color=look.colour, edgecolor="white",
            hatch="" if whole else canvas.HATCH, alpha=0.5 if row["shown"] == INVALID else 1.0,
        )  # fmt: skip
        top = height
        low, high = row.get(f"{value}_low", np.nan), row.get(f"{value}_high", np.nan)
        if not np.isnan(low):
            ends = [[max(height - low, 0)], [max(high - height, 0)]]
            axes.errorbar(at, height, ends, color="black", elinewidth=0.8, capsize=2, capthick=0.8)
            top = high
        if value == "jct" and 1 < len(row["times"]) <= _FEW and row["backend"] != SIMULATED:
            axes.plot([at] * len(row["times"]), row["times"], ".", color="black", markersize=1.5)
            top = max(top, row["times"].max())
        axes.text(at, top, f"{height:.3g}\n", ha="center", va="center", fontsize=5.5)
        ticks.append(look.title.replace(", ", ",\n"))
    axes.set_xticks(range(len(part)), ticks, rotation=40, ha="right", rotation_mode="anchor")
    axes.tick_params(axis="x", length=0, pad=2)
    axes.margins(y=0.12)
