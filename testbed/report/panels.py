"""The settings that figures show, with a panel for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from testbed.report import canvas, names
from testbed.report.backends import SHORTLY
from testbed.report.data import INVALID, fullest
from testbed.report.settings import PLACE, SETTING
from testbed.report.system_style import Series, SystemStyle
from testbed.report.tables import interval, number
from testbed.workload.catalogue import title

SeriesStyles = Mapping[Series, SystemStyle]


class Panel(NamedTuple):
    """The title of a setting, and its rows of a summary."""

    title: str
    rows: pd.DataFrame

    @property
    def facets(self) -> dict[str, str]:
        """The facets by which a page filters the panel."""
        return canvas.facets(self.rows["workload"].iloc[0], self.rows["fabric"].iloc[0])


Panels = Sequence[Panel]


def settings(table: pd.DataFrame) -> Panels:
    """The title and the rows of each setting, with INA where the most ToRs aggregate. Settings with
    the most systems come first."""
    found = []
    for key, group in fullest(table).groupby([*SETTING, *PLACE], sort=True):
        place = dict(zip([*SETTING, *PLACE], key, strict=True))
        found.append(Panel(headed(place), group.sort_values(["order", "variant"])))
    return canvas.some(sorted(found, key=lambda each: -len(each.rows)))


def headed(place: Mapping[str, Any]) -> str:
    """A setting as a title of several short lines."""
    last = [f"INA at {place['ina']}"] if "ina" in place else []
    last += [names.settings(place["conditions"])] if place["conditions"] else []
    by = SHORTLY.get(place["backend"], place["backend"])
    lines = [f"{title(place['workload'])}, {place['workers']} workers, {by}"]
    return canvas.in_lines("\n".join([*lines, names.fabric(place["fabric"]), ", ".join(last)]))


def words(row: Any, style: SystemStyle, what: str, low: Any, high: Any) -> str:
    """A tooltip: the system, ``what`` it has, its interval, and the number of rows behind it."""
    known = f", 95 % interval {interval(low, high)}" if not pd.isna(low) else ""
    verdict = "no valid row" if row["shown"] == INVALID else row["shown"]
    return f"{style.title}: {what}{known}, n = {row['used_rows']}, {verdict}"


def seconds(value: Any) -> str:
    """``0.234 s``."""
    return f"{number(value)} s"
