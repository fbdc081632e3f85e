"""Where two runs of one cell in virtual time part: the first iteration, its rank, and the links.

Such runs are the same event by event unless the code or its input changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isclose
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

_ROUNDED = 1e-9
"""Relative; tables round the last digits."""

Key = tuple[str, str, int, int]
"""Run, cell, repeat and job of a row."""


@dataclass(frozen=True)
class Record:
    """How a job ran: when each iteration of each rank ended, in seconds, and the bytes that each
    direction of a link carried, for all jobs of the cell."""

    ends: Mapping[tuple[int, int], float]
    links: Mapping[str, float]

    def data(self) -> list[Any]:
        """As plain data, for `of`."""
        return [[[*key, end] for key, end in self.ends.items()], dict(self.links)]

    @staticmethod
    def of(ends: list[tuple[int, int, float]], links: Mapping[str, float]) -> Record:
        return Record({(iteration, rank): end for iteration, rank, end in ends}, links)


def records(rows: pd.DataFrame, iterations: pd.DataFrame, links: pd.DataFrame) -> dict[Key, Record]:
    """The record of each row of the packet back end; the tables are those of `results.read`."""
    ends = dict(iter(iterations.groupby(["run", "cell", "repeat", "job"])))
    loads = dict(iter(links.groupby(["run", "cell", "repeat"])))
    found = {}
    for row in rows[rows["backend"] == "packet"].itertuples():
        key = (row.run, row.cell, row.repeat, row.job)
        if key in ends and key[:3] in loads:
            own, load = ends[key].sort_values(["iteration", "rank"]), loads[key[:3]]
            names = load["source"] + ">" + load["target"]
            instants = zip(own["iteration"], own["rank"], own["end_s"], strict=True)
            found[key] = Record(
                {(int(iteration), int(rank)): float(end) for iteration, rank, end in instants},
                dict(zip(names, map(float, load["bytes"]), strict=True)),
            )
    return found


def first(base: Record, new: Record) -> str:
    """The first difference as text; empty if there is none."""
    ends = [key for key, end in new.ends.items() if _differs(end, base.ends.get(key))]
    links = [name for name, sent in new.links.items() if _differs(sent, base.links.get(name))]
    said = []
    if ends:
        iteration, rank = key = min(ends, key=lambda each: min(_both(base.ends, new.ends, each)))
        was, now = _both(base.ends, new.ends, key)
        said.append(
            f"iteration {iteration} of rank {rank} ends at {now:.12g} s, before at {was:.12g} s"
        )
    if links:
        was, now = _both(base.links, new.links, links[0])
        others = f", and {len(links) - 1} more links differ" if links[1:] else ""
        said.append(f"{links[0]} carries {now:.12g} bytes, before {was:.12g}{others}")
    return "; ".join(said)


def _differs(now: float, was: float | None) -> bool:
    return was is None or not isclose(now, was, rel_tol=_ROUNDED)


def _both(base: Mapping[Any, float], new: Mapping[Any, float], key: Any) -> tuple[float, float]:
    return base.get(key, float("inf")), new[key]
