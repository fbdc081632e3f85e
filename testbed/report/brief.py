"""The answer in few rows: one for each range of places of INA at which some systems are the
fastest throughout and take the same time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from testbed.report.backends import FLOOR, mark
from testbed.report.differences import same_plan
from testbed.report.names import fabric, settings
from testbed.report.ranking import Ranking, joined
from testbed.report.system_style import Series, Titles
from testbed.report.tables import Table, interval, number
from testbed.workload.catalogue import title


def brief(rankings: Sequence[Ranking], titles: Titles) -> Table:
    """The systems that are the fastest at all of some consecutive places of INA, those that may be
    at all of them, and the range of the lead over the next."""
    columns = ["fabric", "workload", "INA", "fastest", "JCT (s)", "next", "times as fast"]
    found = []
    for where, own in groupby(rankings, setting):
        for part, first in _ranges([*own]):
            leads = [each.next for each in part if each.next]
            slower = dict.fromkeys(titles[_series(lead.slower)] for lead in leads)
            untested = " (too few repeats to test)" * any(lead.lacks_repeats for lead in leads)
            found.append(
                [
                    *where,
                    _places([each.place["ina"] for each in part]),
                    _named(part, first, titles),
                    _range([each.best["jct_s"] for each in part]),
                    ", ".join(slower),
                    _range([lead.ratio for lead in leads]) + untested,
                ]
            )
    return columns, found


def setting(ranking: Ranking) -> tuple[str, str]:
    """The fabric with its workers and conditions, and the workload, as text."""
    place = ranking.place
    named = [fabric(place["fabric"]), f"{place['workers']} workers"]
    named += [settings(place["conditions"])] if place["conditions"] else []
    return ", ".join(named) + mark(place["backend"]), title(place["workload"])


def _ranges(rankings: Sequence[Ranking]) -> Iterator[tuple[list[Ranking], list[Series]]]:
    """Consecutive rankings with the same JCT, up to the noise floor, and the systems that are the
    fastest in all of them. Either all of them have a next system, or none has."""
    part: list[Ranking] = []
    first: list[Series] = []
    for ranking in rankings:
        own = [*map(_series, ranking.first)]
        times = [each.best["jct_s"] for each in (*part, ranking)]
        alike = max(times) < (1 + FLOOR[ranking.place["backend"]]) * min(times)
        alike &= not part or bool(part[0].next) == bool(ranking.next)
        both = [each for each in first if each in own and alike]
        if part and not both:
            yield part, first
            part = []
        first = both or own
        part.append(ranking)
    yield part, first


def _named(part: Sequence[Ranking], first: Sequence[Series], titles: Titles) -> str:
    """The ``first`` systems, and those that nowhere take longer, as far as tests tell."""
    rows = [{_series(row): row for row in ranking.leaders} for ranking in part]
    unclear = [each for each in rows[0] if each not in first and all(each in own for own in rows)]

    def same(one: Series, other: Series) -> bool:
        return all(same_plan(own[one], own[other]) for own in rows)

    return joined(first, unclear, same, titles.__getitem__)


def _series(row: Mapping[str, Any]) -> Series:
    return row["system"], row["variant"]


def _places(labels: Sequence[str]) -> str:
    """``0/8 to 5/8 ToRs``."""
    if len(labels) == 1:
        return labels[0]
    return f"{labels[0].removesuffix(' ToRs')} to {labels[-1]}"


def _range(values: Sequence[float]) -> str:
    if not values:
        return ""
    low, high = min(values), max(values)
    return number(low) if number(low) == number(high) else interval(low, high)
