"""Figures with a line for each system: times and speed-ups as dots, iterations and jobs as bars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from testbed.report import canvas
from testbed.report.backends import RUN_BY, SIMULATED
from testbed.report.data import INVALID, VALID, where
from testbed.report.panels import Panel, Panels, SeriesStyles, seconds, words
from testbed.report.settings import SETTING
from testbed.report.system_style import Series
from testbed.report.tables import number

_FEW = 5
"""Up to this many repeats are shown one by one."""
_MOST_DOTS = 60
"""The most settings of a system that are shown, from the lowest to the highest."""
_HIDDEN = "#c9d3de"
_NO_COMPUTE = 1e-9
"""The share of an iteration below which it has no compute to speak of."""
_LINE = 0.185  # inches


def times(panels: Panels, styles: SeriesStyles) -> Figure:
    """JCT with intervals."""
    repeats = [time for _, part in panels for own in part["times"] for time in own]
    return _dots(panels, styles, "jct_s", "jct", "JCT (s)", repeats)


def speed_up(
    panels: Panels, ratios: pd.DataFrame, reference: str, title: str, styles: SeriesStyles
) -> Figure | None:
    """Speed-up over ``reference``, with intervals; None if no setting has a valid row of it."""
    keys = [*SETTING, "ina", "system", "variant"]
    ratios = ratios[[*keys, *(f"{reference}{end}" for end in ("", "_low", "_high"))]]
    ratios = ratios.dropna(subset=reference)
    joined = [Panel(title, part.merge(ratios, on=keys)) for title, part in panels]
    joined = [panel for panel in joined if len(panel.rows) > 1]
    if not joined:
        return None
    figure = _dots(joined, styles, reference, reference, f"times as fast as {title}")
    for axes in figure.axes:
        axes.axvline(1, color="black", linewidth=0.8, zorder=1)
    return figure


def exposed(panels: Panels, styles: SeriesStyles) -> Figure | None:
    """An iteration in multiples of its computation: what computation hides, and what it does
    not. None if no job computes."""
    parts = []
    for panel in panels:
        compute = panel.rows["iteration_s"] - panel.rows["exposed_s"]
        whole = panel.rows["iteration_s"] / compute
        computes = compute > _NO_COMPUTE * panel.rows["iteration_s"]
        if computes.any():
            parts.append(panel._replace(rows=panel.rows.assign(whole=whole)[computes]))
    if not parts:
        return None
    every = np.concatenate([part["whole"].to_numpy(float) for _, part in parts])
    # With a single server, an iteration may take ten times as long, so bars much longer than most
    # are cut.
    cut = max(1.5, 1.3 * float(np.nanquantile(every, 0.75)))
    limits = (0.0, cut if np.nanmax(every) > 1.5 * cut else float(np.nanmax(every)) * 1.03, False)
    legend = [Patch(facecolor=_HIDDEN, label="compute, with the communication that it hides")]
    legend.append(
        Patch(
            facecolor="#555555", label="communication that it does not hide, in the system's colour"
        )
    )
    figure, all_axes = _empty(
        parts, styles, "iteration, in multiples of its compute", limits, legend
    )
    for axes, (_, part) in zip(all_axes, parts, strict=True):
        for at, row in enumerate(part.to_dict("records")):
            style = styles[row["system"], row["variant"]]
            whole = min(row["whole"], limits[1])
            (hidden,) = axes.barh(at, 1, 0.62, color=_HIDDEN)
            (bar,) = axes.barh(at, max(whole - 1, 0), 0.62, 1, **_face(row["shown"], style.colour))
            exposed = f"{seconds(row['exposed_s'])} of it exposed"
            text = f"iteration {seconds(row['iteration_s'])}, {exposed}"
            for each in (hidden, bar):
                canvas.note(
                    each, "mark", system=row["system"], words=words(row, style, text, None, None)
                )
            longer = " ▸" if row["whole"] > limits[1] else ""
            _value(axes, at, f"{row['whole']:.2f}{longer}", row["system"])
    return figure


def against_closed_form(table: pd.DataFrame, styles: SeriesStyles) -> Figure | None:
    """Measured JCT over the closed form's: a dot for each setting, a panel for each back end."""
    table = table[(table["expected_jct_s"] > 0) & (table["jct_s"] > 0)]
    table = table.assign(ratio=table["jct_s"] / table["expected_jct_s"])
    panels = [
        Panel(f"measured by {RUN_BY.get(str(backend), backend)}", part)
        for backend, part in table.groupby("backend")
    ]
    if not panels:
        return None
    legend = [canvas.hollow()] if (table["shown"] == INVALID).any() else []
    low, high, is_logarithmic = canvas.scale([*table["ratio"], 0.85, 1.15])
    limits = (
        low if is_logarithmic else min(0.95 * table["ratio"].min(), 0.85),
        high,
        is_logarithmic,
    )
    label = "JCT over the closed form's"
    keys = [[key for key in styles if key in {*_keys(part)}] for _, part in panels]
    titles = [[styles[key].title for key in own] for own in keys]
    bare = [Panel(title, part) for title, part in panels]
    figure, all_axes = _empty(bare, styles, label, limits, legend, titles, shared=False)
    for axes, (_, part), own in zip(all_axes, panels, keys, strict=True):
        axes.axvspan(0.9, 1.1, color="#808080", alpha=0.18, linewidth=0)
        axes.axvline(1, color="#808080", linewidth=0.8)
        for at, key in enumerate(own):
            settings = part[(part["system"] == key[0]) & (part["variant"] == key[1])]
            settings = settings.sort_values("ratio")
            chosen = np.unique(np.linspace(0, len(settings) - 1, _MOST_DOTS).round().astype(int))
            for place, row in enumerate(settings.iloc[chosen].to_dict("records")):
                # One above the other, so that they can be told apart.
                (dot,) = axes.plot(
                    row["ratio"], at + (place % 5 - 2) * 0.14, "o", markersize=3,
                    color=styles[key].colour, alpha=0.85,
                    mfc="white" if row["shown"] == INVALID else styles[key].colour,
                )  # fmt: skip
                text = f"{styles[key].title}: JCT {seconds(row['jct_s'])}, "
                text += f"closed form {seconds(row['expected_jct_s'])}; {where(row)}"
                canvas.note(dot, "mark", system=key[0], words=text)
            _value(axes, at, number(settings["ratio"].median(), aligned=True), key[0])
    return figure


def jobs(parts: Sequence[Panel], styles: SeriesStyles, titles: Sequence[Sequence[str]]) -> Figure:
    """JCT of each job of a cell; a black line is the same job alone. ``titles`` of the jobs."""
    limits = (
        0.0,
        1.06 * max(part[["jct_s", "alone_s"]].max(axis=None) for _, part in parts),
        False,
    )
    legend = [Line2D([], [], color="black", marker="|", linestyle="", label="the same job alone")]
    figure, all_axes = _empty(parts, styles, "JCT (s)", limits, legend, titles)
    for axes, (_, part) in zip(all_axes, parts, strict=True):
        for at, row in enumerate(part.to_dict("records")):
            style = styles[row["system"], row["variant"]]
            (bar,) = axes.barh(at, row["jct_s"], 0.62, **_face(row["shown"], style.colour))
            text, shown = f"JCT {seconds(row['jct_s'])}", number(row["jct_s"], aligned=True)
            if not pd.isna(row["alone_s"]):
                axes.vlines(row["alone_s"], at - 0.4, at + 0.4, color="black", linewidth=1.4)
                text += f", alone {seconds(row['alone_s'])}"
                shown += f"  {row['slowdown']:.2f}×"
            told = words(row, style, text, row["jct_low"], row["jct_high"])
            canvas.note(bar, "mark", system=row["system"], words=told)
            _value(axes, at, shown, row["system"])
    return figure


def _face(shown: str, colour: str) -> dict[str, Any]:
    hatch = {} if shown == VALID else {"hatch": canvas.HATCH, "edgecolor": "white"}
    return {"facecolor": colour, "alpha": 0.5 if shown == INVALID else 1.0, **hatch}


def _dots(
    panels: Panels,
    styles: SeriesStyles,
    column: str,
    ends: str,
    label: str,
    others: Sequence[float] = (),
) -> Figure:
    shown = [part[name] for _, part in panels for name in (column, f"{ends}_low", f"{ends}_high")]
    limits = canvas.scale([*pd.concat(shown), *others])
    some = pd.concat([part["shown"] for _, part in panels])
    legend = [canvas.hollow()] if (some != VALID).any() else []
    figure, all_axes = _empty(panels, styles, label, limits, legend)
    for axes, (_, part) in zip(all_axes, panels, strict=True):
        for at, row in enumerate(part.to_dict("records")):
            style = styles[row["system"], row["variant"]]
            value, low, high = row[column], row[f"{ends}_low"], row[f"{ends}_high"]
            what = f"JCT {seconds(value)}" if column == "jct_s" else f"{number(value)} {label}"
            told = words(row, style, what, low, high)
            if not pd.isna(low):
                (line,) = axes.plot(
                    [low, high], [at, at], color=style.colour, linewidth=2.2, alpha=0.55
                )
                canvas.note(line, "mark", system=row["system"])
            if column == "jct_s" and 1 < len(row["times"]) <= _FEW and row["backend"] != SIMULATED:
                (line,) = axes.plot(row["times"], [at] * len(row["times"]), "|", color=style.colour)
                canvas.note(line, "mark", system=row["system"])
            (dot,) = axes.plot(
                value, at, style.marker, color=style.colour, markersize=5,
                mfc="white" if row["shown"] == INVALID else style.colour, zorder=3,
            )  # fmt: skip
            canvas.note(dot, "mark", system=row["system"], words=told)
            once = " (1 run)" if row["used_rows"] == 1 and row["backend"] != SIMULATED else ""
            _value(axes, at, number(value, aligned=True) + once, row["system"])
    return figure


def _value(axes: Axes, at: float, text: str, system: str) -> None:
    """Write a number next to a line, to the right of the axes."""
    written = axes.annotate(
        text, (1, at), (5, 0), ("axes fraction", "data"), "offset points", va="center", fontsize=7
    )
    canvas.note(written, "mark", system=system)


def _empty(
    panels: Panels,
    styles: SeriesStyles,
    label: str,
    limits: tuple[float, float, bool],
    legend: Sequence[Line2D | Patch],
    titles: Sequence[Sequence[str]] | None = None,
    shared: bool = True,
) -> tuple[Figure, list[Axes]]:
    """Axes with a line for each row; ``titles``, or the rows' settings, are to the left.
    ``shared``: whether all rows of a panel have its workload and fabric."""
    named = titles or [[styles[key].title for key in _keys(part)] for _, part in panels]
    named = [[canvas.wrapped(name) for name in own] for own in named]
    longest = max(len(line) for own in named for name in own for line in name.split("\n"))
    line = _LINE * (1 + 0.35 * max(name.count("\n") for own in named for name in own))
    figure, all_axes = canvas.panels(
        [panel.title for panel in panels],
        height=[line * max(len(own), 2) for own in named],
        left=0.18 + 0.062 * longest,
        right=0.78, legend=legend, facets=[panel.facets for panel in panels] if shared else [],
    )  # fmt: skip
    for axes, own in zip(all_axes, named, strict=True):
        canvas.set_scale(axes, "x", limits)
        axes.set_ylim(max(len(own), 2) - 0.5, -0.5)
        axes.set_yticks(range(len(own)), own)
        axes.tick_params(axis="y", length=0, labelsize=7)
        axes.set_xlabel(canvas.said(label, limits), labelpad=1)
        axes.grid(visible=True, axis="both")
        axes.spines["left"].set_visible(False)
    return figure, all_axes


def _keys(part: pd.DataFrame) -> list[Series]:
    return list(zip(part["system"], part["variant"], strict=True))
