"""Line charts: values against the number of ToRs that aggregate, and iteration times' CDF."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from testbed.report import canvas
from testbed.report.bars import Panels, SeriesStyles, headed
from testbed.report.data import INVALID, VALID
from testbed.report.settings import SETTING
from testbed.report.system_style import SystemStyle

_SPREAD = 8
"""Ratio of largest to smallest in one panel that makes all axes of a figure logarithmic."""


def deployments(table: pd.DataFrame) -> Panels:
    """Title and rows of each setting that has several numbers of ToRs or switches with INA."""
    panels = []
    for key, group in table.groupby(SETTING, sort=True):
        some = group[group["ina_count"] > 0]
        ends = group["ina_count"].isin([0]) | (group["ina_count"] == group["ina_total"])
        for unit in some["ina_unit"].unique():
            of_unit = group[(group["ina_unit"] == unit) | (group["ina_count"] == 0)]
            between = of_unit["ina_policy"][~ends[of_unit.index]].unique()
            for policy in between if len(between) else [""]:
                part = of_unit[(of_unit["ina_policy"] == policy) | ends[of_unit.index]]
                if part["ina_count"].nunique() > 1:
                    place = dict(zip(SETTING, key, strict=True))
                    place["conditions"] += f", {policy}" if place["conditions"] and policy else ""
                    panels.append((headed(place), part))
    return sorted(panels, key=lambda each: -len(each[1]))[: canvas.MOST_PANELS]


def against_ina(panels: Panels, styles: SeriesStyles, value: str, label: str) -> Figure:
    """``value`` against the number of ToRs or switches with INA, and their share."""
    keys = {key for _, part in panels for key in _keys(part)}
    legend = [canvas.line(style) for key, style in styles.items() if key in keys]
    drawn = [key for key in styles if key in keys]
    hollow = any((part["shown"] != VALID).any() for _, part in panels)
    column = "jct_s" if value == "jct" else value
    logarithmic = any(_is_spread(part[column]) for _, part in panels)
    figure, all_axes = canvas.panels(
        [title for title, _ in panels],
        legend=[*legend, canvas.hollow()] if hollow else legend,
    )
    for axes, (_, part) in zip(all_axes, panels, strict=True):
        ticks = part[["ina_count", "ina_total", "ina_unit"]].drop_duplicates("ina_count")
        ticks = ticks.sort_values("ina_count")
        axes.set_xticks(
            ticks["ina_count"],
            [
                f"{each.ina_count}\n{each.ina_count / each.ina_total:.0%}"
                for each in ticks.itertuples()
            ],
        )
        counts = ticks["ina_count"].to_numpy(float)
        # Side by side, so that no marker hides another.
        beside = np.diff(counts).min() * np.linspace(-0.2, 0.2, len(drawn))
        for key, aside in zip(drawn, beside, strict=True):
            own = _own(part, key).sort_values("ina_count")
            if len(own) == 1 and not own["aggregates"].iloc[0]:
                height = own[column].iloc[0]
                axes.axhline(height, color=styles[key].colour, linestyle=styles[key].line)
            if len(own):
                _line(axes, own, styles[key], value, column, aside)
        axes.set_xlabel(f"{ticks['ina_unit'].iloc[-1]} with INA", labelpad=1)
        axes.set_ylabel(label)
    highest = max(part[column].max() for _, part in panels)
    lowest = min(part[column].min() for _, part in panels)
    for axes in all_axes:
        if logarithmic:
            canvas.logarithmic(axes)
        axes.set_ylim(lowest / 1.2 if logarithmic else 0, highest * (1.2 if logarithmic else 1.05))
    return figure


def _keys(part: pd.DataFrame) -> list[tuple[str, str]]:
    return list(dict.fromkeys(zip(part["system"], part["variant"], strict=True)))


def _own(part: pd.DataFrame, key: tuple[str, str]) -> pd.DataFrame:
    return part[(part["system"] == key[0]) & (part["variant"] == key[1])]


def _line(
    axes: Axes, own: pd.DataFrame, style: SystemStyle, value: str, column: str, aside: float
) -> None:
    axes.plot(own["ina_count"] + aside, own[column], color=style.colour, linestyle=style.line)
    known = own.dropna(subset=f"{value}_low")
    if len(known):
        ends = [known[column] - known[f"{value}_low"], known[f"{value}_high"] - known[column]]
        axes.errorbar(
            known["ina_count"] + aside, known[column], np.clip(ends, 0, None), color=style.colour,
            linestyle="", elinewidth=0.8, capsize=2,
        )  # fmt: skip
    for shown, part in own.groupby("shown"):
        axes.plot(
            part["ina_count"] + aside, part[column], style.marker, color=style.colour,
            mfc="white" if shown == INVALID else style.colour,
        )  # fmt: skip


def _is_spread(values: pd.Series) -> bool:
    return bool(values.max() > _SPREAD * values.min() > 0)


def spread(panels: Panels, styles: SeriesStyles) -> Figure:
    """The CDF of workers' iteration times, from ``panels`` with a column ``length_s``.

    Pale where no row is valid.
    """
    keys = {key for _, part in panels for key in _keys(part)}
    shown = {key: style for key, style in styles.items() if key in keys}
    legend = [canvas.line(style) for style in shown.values()]
    for handle in legend:
        handle.set_marker("")
    figure, all_axes = canvas.panels([title for title, _ in panels], legend=legend)
    logarithmic = any(_is_spread(part["length_s"]) for _, part in panels)
    sizes = dict(zip(shown, np.linspace(2.4, 1.0, len(shown)), strict=True))
    for axes, (_, part) in zip(all_axes, panels, strict=True):
        for key, style in shown.items():
            own = _own(part, key)
            if not len(own):
                continue
            times = np.sort(own["length_s"].to_numpy(float))
            shares = np.arange(1, len(times) + 1) / len(times)
            good = bool(own["is_shown"].all())
            axes.step(
                np.concatenate([times[:1], times]), np.concatenate([[0.0], shares]), where="post",
                color=style.colour, linestyle=style.line,
                alpha=1 if good else 0.35, linewidth=sizes[key],
            )  # fmt: skip
        axes.set_ylim(0, 1.02)
        axes.set_ylabel("CDF")
        axes.set_xlabel("iteration (s)", labelpad=1)
        if logarithmic:
            axes.set_xscale("log")
        axes.grid(visible=True, axis="both")
    return figure
