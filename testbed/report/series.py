"""The time series of a cell: queues, windows, round trips and slots, from its ``series.csv``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from testbed.report import canvas
from testbed.run_tables import MOST

_COLUMNS = ["time_s", "quantity", "place", "value"]
_PANELS = {
    "queue_bytes": ("queues", "kB", 1e-3),
    "tcp_window_bytes": ("congestion windows of TCP", "kB", 1e-3),
    "tcp_in_flight_bytes": ("in flight over TCP", "kB", 1e-3),
    "tcp_round_trip_s": ("smoothed round trips of TCP", "µs", 1e6),
    "ina_window": ("windows of INA", "fragments", 1.0),
    "ina_in_flight": ("in flight over INA", "fragments", 1.0),
    "ina_round_trip_s": ("smoothed round trips of INA", "µs", 1e6),
    "slots_taken": ("slots taken", "slots", 1.0),
    "slots_incomplete": ("slots with an incomplete sum", "slots", 1.0),
}
"""The title, the unit and the factor to the unit, by quantity."""
_NAMED = 4
"""How many places of a panel, those with the largest values, have a colour of their own. The others
are grey."""


class NoSeries(Exception):
    """The file is not a series; the message says why."""


def read(path: Path) -> pd.DataFrame:
    """The values in ``path``, by time. Raises NoSeries if there are none."""
    try:
        table = pd.read_csv(path)
    except ValueError as error:  # pandas' errors are ValueErrors
        raise NoSeries(
            f"{path}: found no table that `run --series` wrote, wanted the series.csv of a cell's"
            " logs; name that file"
        ) from error
    if list(table.columns) != _COLUMNS:
        raise NoSeries(
            f"{path}: found columns {', '.join(map(str, table.columns))}, wanted "
            f"{', '.join(_COLUMNS)}: the series.csv of a cell's logs, from run --series INTERVAL"
        )
    if table.empty:
        raise NoSeries(f"{path}: found no row below the heading, wanted what `run --series` wrote")
    numbers = table[["time_s", "value"]].apply(pd.to_numeric, errors="coerce")
    wrong = ~np.isfinite(numbers).all(axis="columns")
    if wrong.any():
        raise NoSeries(
            f"{path}:{wrong.idxmax() + 2}: found no number, wanted numbers in time_s and value"
        )
    strange = ~table["quantity"].isin(_PANELS) | table["place"].isna()
    if strange.any():
        row = strange.idxmax()
        raise NoSeries(
            f"{path}:{row + 2}: found quantity {table['quantity'][row]} at {table['place'][row]},"
            f" wanted one of {', '.join(_PANELS)}, and a place"
        )
    if (numbers.abs() > MOST).any(axis=None):
        raise NoSeries(f"{path}: found a number above {MOST:g}, wanted what `run` wrote")
    if not table["value"].any():
        raise NoSeries(f"{path}: all values are 0, so there is nothing to draw")
    return table


def drawn(table: pd.DataFrame) -> Figure:
    """A panel for each quantity that is ever above 0, with a line for each place."""
    most = table.groupby("quantity")["value"].max()
    shown = [quantity for quantity in _PANELS if most.get(quantity, 0) > 0]
    # Titles are on the left, where legends leave room for them.
    figure, all_axes = canvas.panels([""] * len(shown), height=1.2, below=0.45, wide=True)
    end = table["time_s"].max()
    for axes, quantity in zip(all_axes, shown, strict=True):
        title, unit, factor = _PANELS[quantity]
        own = table[table["quantity"] == quantity]
        _lines(axes, own.assign(value=own["value"] * factor), end)
        axes.set_title(title, loc="left", pad=4)
        axes.set_ylabel(unit)
        axes.set_xlabel("simulated time (ms)", labelpad=1)
    return figure


def _lines(axes: Axes, table: pd.DataFrame, end: float) -> None:
    highest = table.groupby("place")["value"].max().sort_values(ascending=False, kind="stable")
    named = [place for place in highest.index[:_NAMED] if highest[place] > 0]
    # Named places are drawn above the others.
    for place in [*highest.index[len(named) :], *reversed(named)]:
        own = table[table["place"] == place]
        times = [*(own["time_s"] * 1e3), end * 1e3]
        values = [*own["value"], own["value"].iloc[-1]]
        if place in named:
            colour = f"C{named.index(place)}"
            axes.step(times, values, where="post", color=colour, linewidth=0.8, label=place)
        else:
            axes.step(times, values, where="post", color="#c8c8c8", linewidth=0.5)
    axes.set_xlim(0, end * 1e3 or 1)
    axes.set_ylim(bottom=0)
    handles, labels = axes.get_legend_handles_labels()
    axes.legend(
        handles[::-1], labels[::-1], loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=_NAMED,
        fontsize=6, frameon=False, borderpad=0.2, handlelength=1.2, columnspacing=0.8,
    )  # fmt: skip
