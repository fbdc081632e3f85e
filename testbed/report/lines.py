"""Line charts: values against the number of ToRs that aggregate, and iteration times' CDF."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count as numbers
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from testbed.report import canvas
from testbed.report.data import INVALID, VALID
from testbed.report.panels import Panel, Panels, SeriesStyles, headed, seconds, words
from testbed.report.settings import SETTING
from testbed.report.system_style import SystemStyle, series_of
from testbed.report.tables import number

Limits = tuple[float, float, bool]
"""The lowest and the highest value of a scale, and whether it is logarithmic."""
_MARKER = 0.085
"""The width that a marker needs, in inches."""
_STEPS = 200
"""The most steps of a CDF that are drawn."""


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
                    given = filter(None, (place["conditions"], policy))
                    place["conditions"] = ", ".join(given)
                    panels.append(Panel(headed(place), part))
    return canvas.some(sorted(panels, key=lambda each: -len(each.rows)))


def against_ina(panels: Panels, styles: SeriesStyles, value: str, label: str) -> Figure:
    """``value`` against the number of ToRs or switches with INA, and their share."""
    figure, all_axes, limits = framed(panels, styles, value, below=0.58)
    column = _column(value)
    for axes, (_, part) in zip(all_axes, panels, strict=True):
        ticks = part[["ina_count", "ina_total", "ina_unit"]].drop_duplicates("ina_count")
        ticks = ticks.sort_values("ina_count")
        counts = ticks["ina_count"].to_numpy(float)
        axes.set_xticks(
            counts,
            [
                f"{each.ina_count}\n{each.ina_count / each.ina_total:.0%}"
                for each in ticks.itertuples()
            ],
        )
        space = np.diff(counts).min()
        axes.set_xlim(counts[0] - space / 2, counts[-1] + space / 2)
        canvas.set_scale(axes, "y", limits)
        places = _beside(axes, part, column, 0.3 * space)
        rows = sorted(part.to_dict("records"), key=lambda row: float(row["ina_count"]))
        for key, style in styles.items():
            if own := [row for row in rows if (row["system"], row["variant"]) == key]:
                if len(own) == 1 and not own[0]["aggregates"]:
                    level = axes.axhline(own[0][column], color=style.colour, linestyle=style.line)
                    canvas.note(level, "mark", system=key[0])
                at = [places[key[0], key[1], row["ina_count"]] for row in own]
                where = [f"with INA at {row['ina']}" for row in own]
                line(axes, own, at, style, value, label, where)
        axes.set_xlabel(f"{ticks['ina_unit'].iloc[-1]} with INA", labelpad=1)
        axes.set_ylabel(canvas.said(label, limits))
    return figure


def framed(
    panels: Panels, styles: SeriesStyles, value: str, below: float = 0.42
) -> tuple[Figure, list[Axes], Limits]:
    """Empty axes for lines of ``value``, under a legend of their systems, and limits for all of
    them."""
    there = {key for _, part in panels for key in series_of(part)}
    legend = [canvas.line(style) for key, style in styles.items() if key in there]
    if any((part["shown"] != VALID).any() for _, part in panels):
        legend.append(canvas.hollow())
    columns = _column(value), f"{value}_low", f"{value}_high"
    known = [part[name] for _, part in panels for name in columns]
    figure, all_axes = canvas.panels(
        [panel.title for panel in panels], legend=legend, height=2.1, below=below, left=0.6,
        facets=[panel.facets for panel in panels],
    )  # fmt: skip
    return figure, all_axes, canvas.scale(pd.concat(known))


def _column(value: str) -> str:
    return "jct_s" if value == "jct" else value


def _beside(
    axes: Axes, part: pd.DataFrame, column: str, most: float
) -> dict[tuple[str, str, int], float]:
    """The x of each point, moved beside points of the same count that it would hide, by ``most`` at
    most."""
    box, figure = axes.get_position(), axes.get_figure()
    assert isinstance(figure, Figure)
    wide, high = figure.get_size_inches() * (box.width, box.height)
    low, top = axes.get_xlim()
    shifts = {}
    for ina_count, group in part.groupby("ina_count"):
        found = axes.transLimits.transform(
            axes.transScale.transform([(0.0, value) for value in group[column]])
        )
        taken: list[tuple[int, float]] = []
        for row, (_, height) in sorted(
            zip(group.to_dict("records"), found * high, strict=True),
            key=lambda each: float(each[1][1]),
        ):
            shift = next(
                shift
                for shift in _shifts()
                if all(shift != other or abs(height - its) > _MARKER for other, its in taken)
            )
            taken.append((shift, height))
            shifts[row["system"], row["variant"], ina_count] = shift
    furthest = max(map(abs, shifts.values()), default=0)
    step = min(_MARKER * (top - low) / wide, most / max(1, furthest))
    return {key: float(key[2]) + shift * step for key, shift in shifts.items()}


def _shifts() -> Iterator[int]:
    """0, 1, -1, 2, -2, ..."""
    return ((each + 1) // 2 * (1 if each % 2 else -1) for each in numbers())


def line(
    axes: Axes, own: Sequence[Mapping[Any, Any]], at: Sequence[float], style: SystemStyle,
    value: str, label: str, where: Sequence[str],
) -> None:  # fmt: skip
    """A system's line, with an interval and a marker for each of its rows; ``where`` says in words
    what is ``at`` their places."""
    column, system = _column(value), own[0]["system"]
    drawn = axes.plot(
        at, [row[column] for row in own], color=style.colour, linestyle=style.line, alpha=0.75
    )
    for x, row, words_of_place in zip(at, own, where, strict=True):
        low, high = row[f"{value}_low"], row[f"{value}_high"]
        if not pd.isna(low):
            drawn += axes.plot([x, x], [low, high], color=style.colour, linewidth=1, marker="_")
        shown = (
            f"JCT {seconds(row[column])}" if value == "jct" else f"{number(row[column])} {label}"
        )
        (marker,) = axes.plot(
            x, row[column], style.marker, color=style.colour, markersize=4.5, zorder=3,
            mfc="white" if row["shown"] == INVALID else style.colour,
        )  # fmt: skip
        said = words(row, style, f"{shown} {words_of_place}", low, high)
        canvas.note(marker, "mark", system=system, words=said)
    for each in drawn:
        canvas.note(each, "mark", system=system)


def spread(panels: Panels, styles: SeriesStyles) -> Figure:
    """The CDF of workers' iteration times, from ``panels`` with a column ``length_s``.

    It is pale if no row is valid.
    """
    there = {key for _, part in panels for key in series_of(part)}
    shown = {key: style for key, style in styles.items() if key in there}
    legend = [canvas.line(style) for style in shown.values()]
    for handle in legend:
        handle.set_marker("")
    limits = canvas.scale(pd.concat([part["length_s"] for _, part in panels]))
    if not limits[2]:
        limits = (0.95 * min(part["length_s"].min() for _, part in panels), limits[1], False)
    figure, all_axes = canvas.panels(
        [panel.title for panel in panels], legend=legend,
        facets=[panel.facets for panel in panels],
    )  # fmt: skip
    widths = dict(zip(shown, np.linspace(3.0, 1.0, len(shown)), strict=True))
    for axes, (_, part) in zip(all_axes, panels, strict=True):
        for key, style in shown.items():
            own = part[(part["system"] == key[0]) & (part["variant"] == key[1])]
            if not len(own):
                continue
            times = np.sort(own["length_s"].to_numpy(float))
            shares = np.arange(1, len(times) + 1) / len(times)
            some = np.unique(np.linspace(0, len(times) - 1, _STEPS).round().astype(int))
            (line,) = axes.step(
                [times[0], *times[some]], [0.0, *shares[some]], where="post",
                color=style.colour, linestyle=style.line,
                alpha=1 if own["is_shown"].all() else 0.35, linewidth=widths[key],
            )  # fmt: skip
            middle = f"median iteration {seconds(np.median(times))}, longest {seconds(times[-1])}"
            text = f"{style.title}: {middle}, {len(times)} iterations"
            canvas.note(line, "mark", system=key[0], words=text)
        axes.set_ylim(0, 1.02)
        axes.set_ylabel("share of iterations")
        canvas.set_scale(axes, "x", limits)
        axes.set_xlabel(canvas.said("iteration (s)", limits), labelpad=1)
        axes.grid(visible=True, axis="both")
    return figure
