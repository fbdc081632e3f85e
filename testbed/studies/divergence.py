"""Where two runs of the same cell in virtual time diverge: the first packets, iteration and links.

Such runs are the same event by event unless the code or its input changed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from math import isclose
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testbed.backends.digests import Digests, first_difference
from testbed.experiment.findings import shown
from testbed.report.complete import check_numbers
from testbed.report.settings import ROW
from testbed.results import DIGESTS, ITERATIONS
from testbed.run_tables import Unreadable

if TYPE_CHECKING:
    import pandas as pd

    from testbed.run_tables import Tables

_ROUNDED = 1e-9
"""The relative difference that is ignored, because tables round the last digits."""

Key = tuple[str, str, int, int]
"""Run, cell, repeat and job of a row."""


@dataclass(frozen=True)
class Record:
    """How a job ran: when each iteration of each rank ended, in seconds. Also the bytes on each
    directed link and the digests of the packets, for all jobs of the cell."""

    ends: Mapping[tuple[int, int], float]
    links: Mapping[str, float]
    digests: Digests | None = None
    """None in older results."""

    def data(self) -> list[Any]:
        """The record as plain data, for `of`."""
        ends = [[*key, end] for key, end in self.ends.items()]
        own = self.digests
        digests = [[own.packets, own.every, own.text()]] if own is not None else []
        return [ends, dict(self.links), *digests]

    @staticmethod
    def of(
        ends: list[tuple[int, int, float]],
        links: Mapping[str, float],
        digests: tuple[int, int, str] | None = None,
    ) -> Record:
        return Record(
            {(iteration, rank): float(end) for iteration, rank, end in ends},
            {name: float(sent) for name, sent in links.items()},
            checked(*digests) if digests is not None else None,
        )


def records(tables: Tables, digests: pd.DataFrame) -> dict[Key, Record]:
    """The record of each row of the packet back end.

    The tables are those of `run_tables.read` and `run_tables.read_digests`.
    """
    rows = tables.results
    check_numbers(tables.iterations, ["iteration", "rank", "end_s"], ITERATIONS)
    ended = tables.iterations.sort_values(["iteration", "rank"])
    ends = _grouped(ended, ROW, ["iteration", "rank", "end_s"])
    sent = tables.links.assign(link=tables.links["source"] + ">" + tables.links["target"])
    loads = _grouped(sent, ["run", "cell", "repeat"], ["link", "bytes"])
    kept = {(each.run, each.cell, each.repeat): _digests(each) for each in digests.itertuples()}
    found = {}
    for row in rows[rows["backend"] == "packet"].itertuples():
        key = (row.run, row.cell, row.repeat, row.job)
        if key in ends and key[:3] in loads:
            found[key] = Record(
                {(int(iteration), int(rank)): float(end) for iteration, rank, end in ends[key]},
                {link: float(size) for link, size in loads[key[:3]]},
                kept.get(key[:3]),
            )
    return found


def _grouped(table: pd.DataFrame, by: list[str], columns: list[str]) -> dict[Any, list[Any]]:
    """The values of ``columns`` of each row, by its key. pandas takes longer, group by group."""
    groups: dict[Any, list[Any]] = defaultdict(list)
    keys, values = (table[names].itertuples(index=False, name=None) for names in (by, columns))
    for key, row in zip(keys, values, strict=True):
        groups[key].append(row)
    return groups


def _digests(row: Any) -> Digests:
    """The digests of a row of digests.csv. Raises Unreadable if they cannot be those of a run."""
    try:
        return checked(row.packets, row.every, row.digests)
    except (TypeError, ValueError, OverflowError):
        raise Unreadable(
            f"{Path(row.run) / DIGESTS}: found {shown(row.digests)} for {row.packets} packets, one"
            f" each {row.every}, wanted what `run` wrote"
        ) from None


def checked(packets: Any, every: Any, text: Any) -> Digests:
    """Digests read from a file. Raises ValueError, TypeError or OverflowError if their number is
    not that of the packets."""
    found = Digests.of(int(packets), int(every), text)
    if found.every < 1 or found.packets < 0:
        raise ValueError(f"found {packets} packets and a digest each {every}")
    whole = found.packets // found.every
    if not max(1, whole) <= len(found.kept) <= whole + 1:
        raise ValueError(f"found {len(found.kept)} digests of {packets} packets")
    return found


def first(base: Record, new: Record) -> str:
    """The first difference as text; empty if there is none."""
    said = []
    if (among := packets(base, new)) and base.digests and new.digests:
        said.append(
            f"packets {among[0]} to {among[1]} differ; those before are the same"
            f" ({new.digests.packets} in all, before {base.digests.packets})"
        )
    ends = [key for key, end in new.ends.items() if _differs(end, base.ends.get(key))]
    links = [name for name, sent in new.links.items() if _differs(sent, base.links.get(name))]
    if ends:
        iteration, rank = key = min(ends, key=lambda each: min(_both(base.ends, new.ends, each)))
        was, now = _both(base.ends, new.ends, key)
        said.append(
            f"iteration {iteration} of rank {rank} ends at {now:.12g} s, before at {was:.12g} s"
        )
    if links:
        was, now = _both(base.links, new.links, links[0])
        others = f", and {len(links) - 1} more links differ" if links[1:] else ""
        said.append(f"{links[0]} sends {now:.12g} bytes, before {was:.12g}{others}")
    return "; ".join(said)


def packets(base: Record, new: Record) -> tuple[int, int] | None:
    """The packets among which they diverge, by number from 1; None if that is unknown, or if they
    do not diverge."""
    if base.digests is None or new.digests is None:
        return None
    return first_difference(base.digests, new.digests)


def _differs(now: float, was: float | None) -> bool:
    return was is None or not isclose(now, was, rel_tol=_ROUNDED)


def _both(base: Mapping[Any, float], new: Mapping[Any, float], key: Any) -> tuple[float, float]:
    return base.get(key, float("inf")), new[key]
