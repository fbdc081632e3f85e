"""JCT against the field that an experiment varies: a line for each system, with its intervals."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from testbed.report import canvas, lines, names, runs
from testbed.report.backends import mark
from testbed.report.data import INVALID, VALID, at_place, is_valid
from testbed.report.evaluated import Evaluated
from testbed.report.factors import text, varied
from testbed.report.panels import Panel, Panels, SeriesStyles
from testbed.report.settings import SERIES
from testbed.report.statistics import mean_interval
from testbed.report.system_style import series_of, style_of
from testbed.workload.catalogue import title

_SHIFT = 0.5
"""The share of the space between two values over which systems' points are spread."""


@dataclass(frozen=True)
class Swept:
    """A field that a run varies.

    Attributes:
        factor: its name, such as ``workers``.
        values: its values as text, in the order of the axis.
        panels: for each workload, back end and place of INA the mean JCT of each system at each
            value, whose place is ``at``.
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
        asked = map(json.dumps, runs.swept(about.experiment)[paths[0]])
        order = _sorted([key for key in dict.fromkeys(asked) if key in kinds], kinds)
        at = [order.index(json.dumps(value)) for value in own]
        yield Swept(
            names.settings(paths[0].rpartition(".")[2]),
            tuple(text(kinds[key]) for key in order),
            canvas.some(list(_panels(rows.assign(at=at), evaluated))),
        )


def _sorted(order: list[str], kinds: Mapping[str, Any]) -> list[str]:
    """Keys of ``kinds`` by their values, if these are numbers; otherwise as they are."""
    try:
        return sorted(order, key=lambda key: Fraction(str(kinds[key])))
    except ValueError:
        return order


def _panels(rows: pd.DataFrame, evaluated: Evaluated) -> Iterator[Panel]:
    styles = evaluated.styles
    aggregates = rows["system"].map(lambda name: style_of(name, styles).aggregates)
    some = rows[aggregates] if aggregates.any() else rows
    places = some.groupby(["workload", "backend", "ina_count", "ina"], sort=True)
    for (workload, backend, _, ina), _ in places:
        own = rows[(rows["workload"] == workload) & (rows["backend"] == backend)]
        own = at_place(own, ina, styles, [*SERIES, "at"])
        table = pd.DataFrame.from_records(list(_means(own)))
        yield Panel(f"{title(workload)}, INA at {ina}{mark(backend)}", table)


def _means(rows: pd.DataFrame) -> Iterator[dict[str, Any]]:
    for (system, variant, at), own in rows.groupby([*SERIES, "at"], sort=True):
        low, high = mean_interval(own["jct_s"])
        yield {
            "workload": own["workload"].iloc[0], "fabric": own["fabric"].iloc[0],
            "system": system, "variant": variant, "at": at, "jct_s": own["jct_s"].mean(),
            "jct_low": low, "jct_high": high, "used_rows": len(own),
            "shown": VALID if is_valid(own).all() else INVALID,
        }  # fmt: skip


def drawn(swept: Swept, styles: SeriesStyles) -> Figure:
    """A panel for each workload, back end and place of INA."""
    figure, all_axes, limits = lines.framed(swept.panels, styles, "jct")
    keys = [key for key in styles if any(key in series_of(part) for _, part in swept.panels)]
    for axes, (_, part) in zip(all_axes, swept.panels, strict=True):
        rows = part.to_dict("records")
        for place, key in enumerate(keys):
            shift = _SHIFT * ((place + 0.5) / len(keys) - 0.5)  # no marker hides another
            if own := [row for row in rows if (row["system"], row["variant"]) == key]:
                at = [row["at"] + shift for row in own]
                where = [f"at {swept.factor} {swept.values[row['at']]}" for row in own]
                lines.line(axes, own, at, styles[key], "jct", "s", where)
        axes.set_xlim(-0.5, len(swept.values) - 0.5)
        axes.set_xticks(range(len(swept.values)), swept.values)
        canvas.set_scale(axes, "y", limits)
        axes.set_xlabel(swept.factor, labelpad=1)
        axes.set_ylabel(canvas.said("JCT (s)", limits))
    return figure
