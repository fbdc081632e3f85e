"""Layout of figures: panels of fixed sizes in inches, to fit a paper's columns."""

from __future__ import annotations

import json
import textwrap
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import ceil
from typing import Any, Literal, TypeVar

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.markers import MarkerStyle
from matplotlib.patches import Patch
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, NullLocator

from testbed.report import names
from testbed.report.system_style import SystemStyle
from testbed.workload import catalogue

T = TypeVar("T")
COLUMN, PAGE = 3.5, 7.16
"""The widths, in inches, of a column and of a page of a two-column paper."""
LONGEST = 30
"""Letters in a line of a row's name."""
_WIDEST = 56
"""Letters in a line of a panel's title."""
MOST_PANELS, FEW_PANELS = 12, 6
"""The most panels of a figure, and how many are drawn if there are more settings than that."""
HATCH = "////"

_STYLE: Any = {
    "figure.max_open_warning": 0,  # all are drawn before any is written
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
    "text.parse_math": False,  # names of systems and workloads may have a $
    "pdf.fonttype": 42,  # TrueType: publishers refuse Type 3 fonts
}


@contextmanager
def paper() -> Iterator[None]:
    """The context within which figures are drawn and saved."""
    with plt.rc_context(_STYLE), warnings.catch_warnings():
        # A user's name may have letters that the font lacks: PDF files show boxes instead.
        warnings.filterwarnings("ignore", "Glyph .* missing from ")
        yield


_SPREAD = 5
"""From this ratio of the largest to the smallest value on, a figure's scale is logarithmic."""


def scale(values: Iterable[float]) -> tuple[float, float, bool]:
    """The limits for all panels of a figure, and whether their scale is logarithmic."""
    known = [value for value in values if np.isfinite(value) and value > 0] or [1.0]
    low, high = min(known), max(known)
    if high > _SPREAD * low:
        return low / 1.2, high * 1.2, True
    return 0.0, high * 1.06, False


_THOUSANDS = 10_000
"""From this value on, a tick counts thousands: there is no space for longer numbers."""


def _tick(value: float, _: object = None) -> str:
    return f"{value / 1000:g}k" if value >= _THOUSANDS else f"{value:g}"


def set_scale(axes: Axes, which: Literal["x", "y"], limits: tuple[float, float, bool]) -> None:
    """Apply `scale`; logarithmic axes have ticks such as 0.2, 0.5 and 1, and fewer
    if they are long."""
    low, high, is_logarithmic = limits
    axis = axes.xaxis if which == "x" else axes.yaxis
    if is_logarithmic:
        axes.set(**{f"{which}scale": "log"})
        ratio = high / low
        steps = (1.0, 2.0, 5.0) if ratio < 30 else (1.0, 3.0) if ratio < 500 else (1.0,)
        axis.set_major_locator(LogLocator(subs=steps, numticks=20))
        axis.set_major_formatter(_tick)
        axis.set_minor_formatter(NullFormatter())
        axis.set_minor_locator(NullLocator())
    else:
        axis.set_major_locator(MaxNLocator(4))
        if high >= _THOUSANDS:
            axis.set_major_formatter(_tick)
    axes.set(**{f"{which}lim": (low, high)})


def said(label: str, limits: tuple[float, float, bool]) -> str:
    """An axis label, which says so if the scale is logarithmic."""
    return f"{label}, log scale" if limits[2] else label


def beside(label: str) -> str:
    """A label of a y axis, in lines no longer than the axis of a panel of the usual height."""
    return textwrap.fill(label, 25)


def note(artist: Artist, kind: str, **facts: Any) -> None:
    """Tell `testbed.report.vector` what an artist is: a "panel" or a "mark".

    A mark may have ``words`` (its tooltip) and a ``system`` (by which pages filter).
    """
    artist.set_gid(json.dumps({"is": kind, **facts}))


def some(settings: Sequence[T]) -> Sequence[T]:
    """The settings that are drawn: all, or the first few if there are many."""
    return settings if len(settings) <= MOST_PANELS else settings[:FEW_PANELS]


def is_wide(figure: Figure) -> bool:
    """Whether a panel takes the width of the page."""
    return any(axes.get_position().width * figure.get_figwidth() > COLUMN for axes in figure.axes)


def facets(workload: str, fabric: str) -> dict[str, str]:
    """The facets by which a page filters panels and rows."""
    return {"workload": catalogue.title(workload), "fabric": names.fabric(fabric)}


def panels(
    titles: Sequence[str],
    height: float | Sequence[float] = 1.7,
    below: float = 0.42,
    left: float = 0.55,
    right: float = 0.1,
    head: float = 0.0,
    wide: bool = False,
    legend: Sequence[Artist] = (),
    facets: Sequence[Mapping[str, str]] = (),
) -> tuple[Figure, list[Axes]]:
    """Empty axes, one for each title, under a legend.

    Args:
        height: the height of all axes, or of each. ``below``, ``left`` and ``right`` are the space
            for labels, ``head`` is the space between each and its title. All in inches.
        wide: whether a row has one panel, over the width of the page. Otherwise it has two, or one
            in the width of a column.
        facets: what all values of each panel share (`facets`).
    """
    columns = 1 if wide or len(titles) == 1 else 2
    width = PAGE if wide or columns == 2 else COLUMN
    across = max((len(str(handle.get_label())) for handle in legend), default=0) * 0.062 + 0.45
    entries = max(1, min(len(legend), int(width / across)))
    lines = ceil(len(legend) / entries)
    top = 0.05 + 0.17 * lines
    above = head + 0.17 + 0.13 * max((title.count("\n") for title in titles), default=0)
    heights = [height] * len(titles) if isinstance(height, float) else list(height)
    in_rows = [max(heights[at : at + columns]) for at in range(0, len(heights), columns)]
    total = top + sum(above + tallest + below for tallest in in_rows)
    figure = plt.figure(figsize=(width, total))
    made = []
    for place, title in enumerate(titles):
        row, column = divmod(place, columns)
        own = heights[place]
        start = top + sum(above + tallest + below for tallest in in_rows[:row])
        bottom = total - start - above - own
        begin, space = column * width / columns, width / columns
        axes = figure.add_axes(
            (
                (begin + left) / width,
                bottom / total,
                (space - left - right) / width,
                own / total,
            )
        )
        above_it = (bottom + own + head + 0.05) / total
        figure.text((begin + 0.08) / width, above_it, title, va="bottom")
        box = [72 * part for part in (begin, bottom - below, space, below + own + head + 0.07)]
        shared = facets[place] if facets else {}
        note(axes, "panel", title=title, box=box, facets=shared)
        made.append(axes)
    note(figure, "figure", legend=[_entry(handle) for handle in legend])
    if legend:
        figure.legend(
            handles=list(legend), loc="upper center", bbox_to_anchor=(0.5, 1.0),
            ncols=ceil(len(legend) / lines), frameon=False, borderaxespad=0.2, handlelength=1.8,
            columnspacing=1.2, labelspacing=0.3,
        )  # fmt: skip
    return figure, made


def in_lines(title: str) -> str:
    """A panel's title in lines that fit above it: long ones are broken at commas."""
    lines = []
    for text in filter(None, title.split("\n")):
        lines.append("")
        for word in text.split(", "):
            longer = f"{lines[-1]}, {word}" if lines[-1] else word
            if len(longer) > _WIDEST and lines[-1]:
                lines.append(word)
            else:
                lines[-1] = longer
    return "\n".join(lines)


def wrapped(name: str) -> str:
    """A row's name in lines of at most `LONGEST` letters, its settings on lines of their own."""
    if len(name) <= 20:
        return name
    lines = name.replace(" (", "\n(").split("\n")
    return "\n".join(textwrap.fill(line, LONGEST) for line in lines)


def line(style: SystemStyle) -> Line2D:
    """A legend entry for a system's line."""
    made = Line2D(
        [], [], color=style.colour, marker=style.marker, label=style.title, linestyle=style.line
    )
    note(made, "entry", dashes="" if style.line == "-" else " ".join(map(str, style.line[1])))
    return made


def hollow() -> Line2D:
    """A legend entry for points of invalid rows."""
    return Line2D([], [], color="#808080", marker="o", mfc="white", label="not valid", linestyle="")


def _entry(handle: Artist) -> dict[str, str]:
    """A legend entry for a page: its label, its colours, dashes, and its shape in a box of 26 by
    12."""
    label = str(handle.get_label())
    if not isinstance(handle, Line2D):
        assert isinstance(handle, Patch)
        colour = to_hex(handle.get_facecolor())
        return {"label": label, "line": "", "fill": colour, "shape": "M5 2H21V10H5Z"}
    own = json.loads(handle.get_gid() or "{}")
    colour, fill = to_hex(handle.get_color()), handle.get_markerfacecolor()
    shape = _shape(str(handle.get_marker()), min(4.5, float(handle.get_markersize())))
    line = colour if handle.get_linestyle() != "None" else ""
    return {
        "label": label, "line": line, "fill": to_hex(fill), "edge": colour, "shape": shape,
        "dashes": own.get("dashes", ""), "width": f"{handle.get_linewidth():.3g}",
    }  # fmt: skip


def _shape(marker: str, size: float) -> str:
    """The outline of a marker in the middle of a box of 26 by 12, as an SVG path."""
    style = MarkerStyle(marker)
    outline = style.get_path().transformed(style.get_transform())
    letters = {1: "M", 2: "L", 3: "Q", 4: "C", 79: "Z"}
    return "".join(
        letters[int(code)]
        + ("" if code == 79 else " ".join(
            f"{13 + size * 1.6 * x:.2f} {6 - size * 1.6 * y:.2f}" for x, y in points.reshape(-1, 2)
        ))
        for points, code in outline.iter_segments(simplify=False)
    )  # fmt: skip
