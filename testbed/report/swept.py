"""JCT against the field that an experiment varies: a line for each system, with its intervals."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from testbed.report import canvas, names
from testbed.report.data import INVALID, VALID, is_valid
from testbed.report.evaluated import Evaluated
from testbed.report.factors import varied
from testbed.report.panels import Panel, Panels, SeriesStyles, seconds, words
from testbed.report.settings import SERIES
from testbed.report.statistics import mean_interval
from testbed.report.system_style import style_of
from testbed.workload.catalogue import title

_SHIFT = 0.5
"""The share of the space between two values over which systems' points are spread."""


@dataclass(frozen=True)
class Swept:
    """A field that a run varies.

    Attributes:
        factor: its name, such as ``workers``.
        values: its values as text, in the order of the axis.
        panels: for each workload and place of INA the mean JCT of each system at each value, whose
            place is ``at``.
    """

    factor: str
    values: tuple[str, ...]
    panels: Panels


def fields(evaluated: Evaluated) -> Iterator[Swept]:
    """The field of each run that varies a single one, besides systems, workloads and INA. Whole
    mappings and lists are too long for an axis."""
    counted = evaluated.counted
    for run, about in evaluated.about.items():
        paths = varied(about.experiment)
        rows = counted[counted["run"] == run]
        if len(paths) != 1 or not len(rows):
            continue
        own = [json.loads(settings).get(paths[0]) for settings in rows["settings"]]
        kinds = {json.dumps(value): value for value in own}
        if len(kinds) < 2 or any(isinstance(value, (dict, list)) for value in own):
            continue
        order = _sorted(about.experiment["sweep"], paths[0], kinds)
        at = [order.index(json.dumps(value)) for value in own]
        yield Swept(
            names.settings(paths[0].rpartition(".")[2]),
            tuple(_text(kinds[key]) for key in order),
            canvas.some(list(_panels(rows.assign(at=at), evaluated))),
        )


def _sorted(sweep: Mapping[str, Any], path: str, kinds: Mapping[str, Any]) -> list[str]:
    """The values that occur, as keys of ``kinds``: numbers in their order, others in that of the
    sweep."""
    asked = {**sweep.get("product", {}), **sweep.get("zip", {})}[path]
    order = [key for key in dict.fromkeys(map(json.dumps, asked)) if key in kinds]
    try:
        return sorted(order, key=lambda key: Fraction(str(kinds[key])))
    except ValueError:
        return order


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _panels(rows: pd.DataFrame, evaluated: Evaluated) -> Iterator[Panel]:
    aggregates = rows["system"].map(lambda name: style_of(name, evaluated.styles).aggregates)
    some = rows[aggregates] if aggregates.any() else rows
    for (workload, _, ina), _ in some.groupby(["workload", "ina_count", "ina"], sort=True):
        own = rows[(rows["workload"] == workload) & ((rows["ina"] == ina) | ~aggregates)]
        table = pd.DataFrame.from_records(list(_means(own)))
        yield Panel(f"{title(workload)}, INA at {ina}", table)


def _means(rows: pd.DataFrame) -> Iterator[dict[str, Any]]:
    for (system, variant, at), own in rows.groupby([*SERIES, "at"], sort=True):
        low, high = mean_interval(own["jct_s"])
        yield {
            "workload": own["workload"].iloc[0], "fabric": own["fabric"].iloc[0],
            "system": system, "variant": variant, "at": at, "jct_s": own["jct_s"].mean(),
            "low": low, "high": high, "used_rows": len(own),
            "shown": VALID if is_valid(own).all() else INVALID,
        }  # fmt: skip


def drawn(swept: Swept, styles: SeriesStyles) -> Figure:
    """A panel for each workload and place of INA."""
    keys = {
        key for _, part in swept.panels for key in zip(part["system"], part["variant"], strict=True)
    }
    series = {key: style for key, style in styles.items() if key in keys}
    legend = [canvas.line(style) for style in series.values()]
    if any((part["shown"] != VALID).any() for _, part in swept.panels):
        legend.append(canvas.hollow())
    known = [part[name] for _, part in swept.panels for name in ("jct_s", "low", "high")]
    limits = canvas.scale(pd.concat(known))
    figure, all_axes = canvas.panels(
        [panel.title for panel in swept.panels], legend=legend, height=2.1, left=0.6,
        facets=[panel.facets for panel in swept.panels],
    )  # fmt: skip
    for axes, (_, part) in zip(all_axes, swept.panels, strict=True):
        for place, ((system, variant), style) in enumerate(series.items()):
            own = part[(part["system"] == system) & (part["variant"] == variant)]
            shift = _SHIFT * ((place + 0.5) / len(series) - 0.5)  # no marker hides another
            lines = axes.plot(
                own["at"] + shift,
                own["jct_s"],
                color=style.colour,
                linestyle=style.line,
                alpha=0.75,
            )
            for row in own.to_dict("records"):
                x, low, high = row["at"] + shift, row["low"], row["high"]
                if not pd.isna(low):
                    lines += axes.plot([x, x], [low, high], color=style.colour, linewidth=1)
                (marker,) = axes.plot(
                    x, row["jct_s"], style.marker, color=style.colour, markersize=4.5, zorder=3,
                    mfc="white" if row["shown"] == INVALID else style.colour,
                )  # fmt: skip
                where = f"{swept.factor} {swept.values[row['at']]}"
                said = words(row, style, f"JCT {seconds(row['jct_s'])} at {where}", low, high)
                canvas.note(marker, "mark", system=system, words=said)
            for line in lines:
                canvas.note(line, "mark", system=system)
        axes.set_xlim(-0.5, len(swept.values) - 0.5)
        axes.set_xticks(range(len(swept.values)), swept.values)
        canvas.set_scale(axes, "y", limits)
        axes.set_xlabel(swept.factor, labelpad=1)
        axes.set_ylabel(canvas.said("JCT (s)", limits))
    return figure
