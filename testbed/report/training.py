"""What jobs have learned: metrics over time and iterations, and times to a target."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from testbed.report import canvas
from testbed.report.complete import check_numbers
from testbed.report.data import where
from testbed.report.panels import headed
from testbed.report.settings import PLACE, ROW, SERIES, SETTING
from testbed.report.statistics import mean_interval
from testbed.report.system_style import Series, SystemStyle, Titles, series_of
from testbed.report.tables import Table, interval, number
from testbed.results import TRAINING


def labelled(training: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """Evaluations with the labels of their rows (`settings.label`)."""
    check_numbers(training, ["iteration", "time_s", "value"], TRAINING)
    labels = {*SETTING, *PLACE, *SERIES} - {"system", "workload"}
    known = rows[[*ROW, *sorted(labels)]]
    found: pd.DataFrame = training.merge(known, on=ROW)
    return found


def reached(training: pd.DataFrame) -> pd.DataFrame:
    """A row for each run: its last value and time, and ``target_s``, which is nan if the target was
    not reached.

    A target is reached at the first evaluation that is at least as good.
    """
    records: list[dict[str, Any]] = []
    for key, own in training.groupby(ROW, sort=False):
        last = own.iloc[-1]
        sign = 1 if last["higher_is_better"] else -1
        good = own[sign * own["value"] >= sign * own["target_value"]]
        kept = {name: last[name] for name in own.columns if name not in ROW}
        learning = own[own["loss"].notna()]
        records.append(
            {
                **dict(zip(ROW, key, strict=True)),
                **kept,
                "last": last["value"],
                "best": own["value"].max() if sign > 0 else own["value"].min(),
                "target_s": good["time_s"].iloc[0] if len(good) else np.nan,
                "target_iteration": good["iteration"].iloc[0] if len(good) else np.nan,
                "mean_staleness": learning["staleness"].mean(),
                "mean_error": learning["quantisation_error"].mean(),
            }
        )
    return pd.DataFrame.from_records(records)


def table(training: pd.DataFrame, titles: Titles) -> Table:
    """A row for each setting and system: times to the target, staleness and errors."""
    columns = ["system", "setting", "metric", "at the end", "target", "reached"]
    columns += ["time to target (s)", "95 % interval", "iterations to target"]
    columns += ["staleness (updates)", "error of sums"]
    lines: list[list[str]] = []
    if not len(training):
        return columns, lines
    keys = [*SETTING, *PLACE, *SERIES]
    for key, own in reached(training).groupby(keys, sort=False):
        place = dict(zip(keys, key, strict=True))
        times = own["target_s"].dropna().to_numpy(float)
        low, high = mean_interval(times)
        asked = own["target_value"].iloc[0]
        lines.append(
            [
                titles[place["system"], place["variant"]],
                where(place),
                str(own["metric"].iloc[0]),
                number(own["last"].mean()),
                number(asked),
                f"{len(times)} of {len(own)}" if pd.notna(asked) else "–",
                number(times.mean()) if len(times) else "–",
                interval(low, high),
                number(own["target_iteration"].mean()),
                number(own["mean_staleness"].mean()),
                f"{own['mean_error'].mean():.1e}",
            ]
        )
    return columns, lines


def drawn(training: pd.DataFrame, styles: Mapping[Series, SystemStyle]) -> Figure | None:
    """The metric over time and over iterations for each setting, with a band from the lowest to the
    highest of all repeats. None if no job has learnt."""
    if not len(training):
        return None
    groups = list(training.groupby([*SETTING, *PLACE], sort=False))[: canvas.FEW_PANELS // 2]
    seen = {key for _, own in groups for key in series_of(own)}
    shown = {key: style for key, style in styles.items() if key in seen}
    legend = [canvas.line(style) for style in shown.values()]
    for handle in legend:
        handle.set_marker("")
    titles, facets = [], []
    for key, _ in groups:
        place = dict(zip([*SETTING, *PLACE], key, strict=True))
        titles += [headed(place), "the same over iterations"]
        facets += [canvas.facets(place["workload"], place["fabric"])] * 2
    figure, all_axes = canvas.panels(titles, height=2.2, legend=legend, facets=facets)
    places = ((own, column) for _, own in groups for column in ("time_s", "iteration"))
    for panel, (own, column) in zip(all_axes, places, strict=True):
        for key, style in shown.items():
            part = own[(own["system"] == key[0]) & (own["variant"] == key[1])]
            if len(part):
                at, values = _together(part, column)
                mean = values.mean(axis=0)
                (line,) = panel.plot(at, mean, color=style.colour, linestyle=style.line)
                last = f"{own['metric'].iloc[0]} {number(mean[-1])} at the end, n = {len(values)}"
                canvas.note(line, "mark", system=key[0], words=f"{style.title}: {last}")
                if len(values) > 1:
                    low, high = values.min(axis=0), values.max(axis=0)
                    band = panel.fill_between(
                        at, low, high, color=style.colour, alpha=0.2, linewidth=0
                    )
                    canvas.note(band, "mark", system=key[0])
        target = own["target_value"].iloc[0]
        if pd.notna(target):
            panel.axhline(target, color="#808080", linewidth=0.8, linestyle=":")
        panel.set_ylabel(str(own["metric"].iloc[0]))
        panel.set_xlabel({"time_s": "time (s)", "iteration": "iterations"}[column], labelpad=1)
        panel.grid(visible=True, axis="both")
    return figure


def _together(part: pd.DataFrame, column: str) -> tuple[Any, Any]:
    """Every repeat's values at common places, from the first one to the end of the shortest
    repeat."""
    runs = [own.sort_values(column) for _, own in part.groupby(ROW)]
    end = min(own[column].iloc[-1] for own in runs)
    at = np.unique(np.concatenate([own[column].to_numpy(float) for own in runs]))
    at = at[at <= end]
    return at, np.array([np.interp(at, own[column], own["value"]) for own in runs])
