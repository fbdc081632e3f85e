"""At which dilations and scales the emulator's ranking can be trusted, in comparison with
packets."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path

import pandas as pd

from testbed import run_tables
from testbed.report import data, template
from testbed.report.backends import FLOOR
from testbed.report.system_style import Styles, style_of
from testbed.report.tables import Table, number, share

_COLUMNS = ["dilation", "scale", "valid", "A/A, median", "A/A, most", "from packets, most", "order"]


def table(directories: Sequence[Path], styles: Styles) -> tuple[Table, list[str], str]:
    """A row for each dilation and scale, the slowest emulation last, two sentences about all of
    them, and one with the time of each system in packets.

    "A/A" is how far apart runs of the same plan were. "Order" is right if each pair of systems
    whose difference in packets exceeds the emulator's noise floor has the same order in both. For
    packets, the largest scale that ran counts. Only valid rows count.
    """
    rows = run_tables.read(directories).results
    rows = rows.assign(is_valid=data.is_valid(rows), cell_key=rows["settings"].map(_place))
    packets = rows[(rows["backend"] == "packet") & rows["is_valid"]]
    largest = packets["scale"].max()
    true = packets[packets["scale"] == largest].groupby("cell_key")["jct_s"].mean()
    emulated = rows[rows["backend"] == "emulate"]
    apart: list[float] = []
    found = []
    right: dict[tuple[float, float], bool | None] = {}
    for (dilation, scale), own in emulated.groupby(["dilation", "scale"], sort=True):
        good = own[own["is_valid"]]
        times = good.groupby("cell_key")["jct_s"]
        noise = (times.max() / times.min() - 1)[times.size() > 1]
        apart += noise.tolist()
        means = times.mean()
        off = (means / true.reindex(means.index) - 1).abs()
        wrong = _wrong(means, true, styles)
        complete = len(means) == own["cell_key"].nunique() and set(means.index) <= set(true.index)
        right[float(dilation), float(scale)] = False if wrong else complete or None
        otherwise = "right" if complete else "some systems have no valid row"
        order = "; ".join(wrong) or otherwise
        found.append([
            f"{dilation:g}", template.fraction(scale), f"{len(good)} of {len(own)}",
            share(noise.median()), share(noise.max()), share(off.max()), order,
        ])  # fmt: skip
    said = []
    if apart:
        series = pd.Series(apart)
        said.append(
            f"A/A: {len(series)} plans ran again. Their times differ by {series.median():.1%} in"
            f" the median and {series.max():.1%} at most. The noise floor that tables use for the"
            f" emulator is {FLOOR['emulate']:.0%}."
        )
    if trusted := [place for place in right if all(_from(place, right))]:
        dilation, scale = min(trusted)
        said.append(
            f"At a dilation of {dilation:g} or more and a scale of {template.fraction(scale)} or"
            " more, the order of these systems is right in all settings that ran."
        )
    elif any(_from(place, right) == [False] for place in right):
        said.append("The order of systems is wrong even at the largest dilation and scale.")
    else:
        said.append(
            "Nothing is known of the order at the largest dilation and scale: some systems have no"
            " valid row to compare."
        )
    return (_COLUMNS, found), said, _apart(true, styles)


def _from(
    place: tuple[float, float], right: Mapping[tuple[float, float], bool | None]
) -> list[bool | None]:
    """Whether the order is right, or None if unknown, at each setting of at least this dilation and
    this scale."""
    return [ok for (d, s), ok in right.items() if d >= place[0] and s >= place[1]]


def _place(settings: str) -> str:
    """The cell without back end, dilation and scale."""
    own = json.loads(settings)
    for name in ("backend", "emulation.dilation", "emulation.scale"):
        own.pop(name, None)
    return json.dumps(own, sort_keys=True)


def _apart(true: pd.Series, styles: Styles) -> str:
    """How far apart the systems are in packets."""
    times = [f"{_title(str(key), styles)} {number(s)} s" for key, s in true.sort_values().items()]
    return f"In packets these systems take: {', '.join(times)}." if times else ""


def _wrong(means: pd.Series, true: pd.Series, styles: Styles) -> list[str]:
    found = []
    for first, second in combinations([key for key in means.index if key in true.index], 2):
        faster, slower = sorted((first, second), key=lambda key: float(true[key]))
        if true[slower] > true[faster] * (1 + FLOOR["emulate"]) and means[slower] <= means[faster]:
            pair = [_title(key, styles) for key in (faster, slower)]
            found.append(f"{pair[0]} is not faster than {pair[1]}")
    return found


def _title(key: str, styles: Styles) -> str:
    own = json.loads(key)
    return style_of(str(own.get("jobs.0.system", key)), styles).title
