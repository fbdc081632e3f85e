"""Layout of figures: panels of fixed sizes in inches, to fit a paper's columns."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from math import ceil
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import LogLocator, NullFormatter

from testbed.report.system_style import SystemStyle

COLUMN, PAGE = 3.5, 7.16
"""Inches: a column and a page of a two-column paper."""
MOST_PANELS = 6
HATCH = "////"

_STYLE: Any = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.titley": 1.0,  # the default place, without the cost of measuring all labels
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.alpha": 0.3,
    "grid.linewidth": 0.5,
    "hatch.linewidth": 0.7,
    "lines.linewidth": 1.2,
    "lines.markersize": 4.5,
    "pdf.fonttype": 42,  # TrueType: publishers refuse Type 3 fonts
}


def paper() -> AbstractContextManager[None]:
    """The context within which figures are drawn and saved."""
    return plt.rc_context(_STYLE)


def logarithmic(axes: Axes) -> None:
    """Make the values of ``axes`` logarithmic, with ticks such as 0.2, 0.5 and 1."""
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())


def panels(
    titles: Sequence[str],
    height: float = 1.7,
    below: float = 0.55,
    left: float = 0.55,
    foot: float = 0.0,
    head: float = 0.0,
    wide: bool = False,
    legend: Sequence[Artist] = (),
) -> tuple[Figure, list[Axes]]:
    """Empty axes, one for each title, under a legend.

    Args:
        height: of each axes. ``below`` and ``left`` are the space for its labels, ``foot`` is the
            space below all axes, ``head`` between each and its title. All in inches.
        wide: one panel in a row, over the page's width; else two, or one in a column's width.
    """
    columns = 1 if wide or len(titles) == 1 else 2
    width = PAGE if wide or columns == 2 else COLUMN
    across = max((len(str(handle.get_label())) for handle in legend), default=0) * 0.066 + 0.42
    entries = max(1, min(len(legend), int(width / across)))
    top = 0.05 + 0.17 * ceil(len(legend) / entries)
    above = head + 0.17 + 0.13 * max((title.count("\n") for title in titles), default=0)
    rows = ceil(len(titles) / columns)
    total = top + rows * (above + height + below) + foot
    figure = plt.figure(figsize=(width, total))
    made = []
    for place, title in enumerate(titles):
        row, column = divmod(place, columns)
        bottom = total - top - row * (above + height + below) - above - height
        axes = figure.add_axes(
            (
                (column * width / columns + left) / width,
                bottom / total,
                (width / columns - left - 0.1) / width,
                height / total,
            )
        )
        axes.set_title(title, pad=4 + 72 * head)
        made.append(axes)
    if legend:
        figure.legend(
            handles=list(legend), loc="upper center", bbox_to_anchor=(0.5, 1.0), ncols=entries,
            frameon=False, borderaxespad=0.2, handlelength=1.8, columnspacing=1.2, labelspacing=0.3,
        )  # fmt: skip
    return figure, made


def line(style: SystemStyle) -> Line2D:
    """A legend's entry for a system's line."""
    return Line2D(
        [], [], color=style.colour, marker=style.marker, label=style.title, linestyle=style.line
    )  # fmt: skip


def dot(style: SystemStyle) -> Line2D:
    """A legend's entry for a system's points."""
    return Line2D([], [], color=style.colour, marker=style.marker, label=style.title, linestyle="")


def not_valid() -> Patch:
    """A legend's entry for bars of invalid rows."""
    return Patch(facecolor="#cccccc", hatch=HATCH, label="not valid", edgecolor="white")


def hollow() -> Line2D:
    """A legend's entry for points of invalid rows."""
    return Line2D([], [], color="grey", marker="o", mfc="white", label="not valid", linestyle="")
