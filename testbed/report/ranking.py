"""The fastest system in each setting, those that tie with it, and its lead over the next."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pandas as pd

from testbed.report import data
from testbed.report.backends import SIMULATED
from testbed.report.differences import Difference, Record, differences, same_plan
from testbed.report.statistics import LEVEL
from testbed.report.system_style import Styles, Titles, style_of

T = TypeVar("T")


@dataclass(frozen=True)
class Ranking:
    """The systems of a setting at one place of INA.

    Attributes:
        place: the labels of the setting.
        best: the system with the lowest mean JCT.
        behind: how far each other system is behind it, in their order.
    """

    place: Mapping[str, Any]
    best: Record
    behind: Sequence[Difference]

    @property
    def tied(self) -> list[Difference]:
        return [each for each in self.behind if each.tie]

    @property
    def equal(self) -> list[Difference]:
        """Those of ``tied`` that take the same time as ``best``."""
        return [each for each in self.tied if each.same]

    @property
    def unclear(self) -> list[Difference]:
        """Those of ``tied`` whose mean is longer, though no test tells them from ``best``."""
        return [each for each in self.tied if not each.same]

    @property
    def first(self) -> list[Record]:
        """``best`` and those that take the same time."""
        return [self.best, *(each.slower for each in self.equal)]

    @property
    def leaders(self) -> list[Record]:
        """``best`` and all that tie with it."""
        return [self.best, *(each.slower for each in self.tied)]

    @property
    def next(self) -> Difference | None:
        """The first of ``behind`` that does not tie with ``best``."""
        return next((each for each in self.behind if not each.tie), None)


def rankings(table: pd.DataFrame, styles: Styles) -> list[Ranking]:
    """The ranking of each setting in a summary (`data.summary`), with one correction for all."""
    return ranked(data.settings(table), styles)


def ranked(
    groups: Iterable[tuple[Mapping[str, Any], Sequence[Record]]], styles: Styles
) -> list[Ranking]:
    """The ranking of the rows at each place, with one correction for all.

    Systems whose workers do not wait for one another are left out: times do not show what their
    speed costs in accuracy.
    """
    found = []
    for place, group in groups:
        rows = [row for row in group if style_of(str(row["system"]), styles).waits]
        if rows:
            found.append((place, sorted(rows, key=lambda row: float(row["jct_s"]))))
    each = iter(differences([(rows[0], other) for _, rows in found for other in rows[1:]]))
    return [Ranking(place, rows[0], [next(each) for _ in rows[1:]]) for place, rows in found]


def headlines(found: Sequence[Ranking], titles: Titles, rows: pd.DataFrame) -> list[str]:
    """A sentence for each setting: which system is fastest, by how much, and how certain that
    is; or why nothing is compared.

    ``rows`` has all rows with their labels.
    """
    if not found:
        return [f"{_nothing(rows)} There is no comparison."]
    return [f"{data.where(ranking.place)}: {_said(ranking, titles)}." for ranking in found]


def _nothing(rows: pd.DataFrame) -> str:
    """Why no systems are compared."""
    good = rows[data.is_valid(rows)]
    if not len(data.finished(rows)):
        errors = [error for error in rows["error"].fillna("") if error]
        return f"No job has finished: {errors[0]}." if errors else "No job has finished."
    if not len(good):
        emulated = (rows["backend"] == "emulate").any()
        return "No row is valid" + (": this machine did not keep up." if emulated else ".")
    if (good["beside"] != "").all():
        return (
            "All valid rows are of jobs that ran side by side, and no job ran with two systems"
            " beside the same jobs: see below."
        )
    return (
        "Only systems whose workers do not wait for one another have valid rows of jobs alone, and "
        "their times do not show what that costs in accuracy."
    )


def _said(ranking: Ranking, titles: Titles) -> str:
    name = _title(ranking.best, titles)
    if not ranking.behind:
        return f"only {name} has a valid row"
    equal = [_title(row, titles) for row in ranking.first]
    unclear = [_title(each.slower, titles) for each in ranking.unclear]
    if ranking.equal:
        first = f"{_listed(equal)} tie"
        first += f", and no test tells {_listed(unclear)} from {name}" if unclear else ""
    elif unclear:
        first = f"no test tells {_listed([name, *unclear])} apart"
    else:
        first = f"{name} is fastest"
    lead = ranking.next
    if lead is None:
        return first
    than = _title(lead.slower, titles)
    return f"{first}, {lead.ratio:.2f} times as fast as {than}{_sure(lead)}"


def fastest(ranking: Ranking, name: Callable[[Record], str]) -> str:
    """The fastest systems, as `joined` writes them."""
    return joined(ranking.first, [each.slower for each in ranking.unclear], same_plan, name)


def joined(
    equal: Sequence[T], unclear: Sequence[T], same: Callable[[T, T], bool], name: Callable[[T], str]
) -> str:
    """``Ring ≡ Rina = OSP, or perhaps PS``: the fastest systems, and those that no test tells from
    them; "≡" joins those that are the ``same``."""
    groups = (" ≡ ".join(map(name, group)) for group in _grouped(equal, same))
    others = [" ≡ ".join(map(name, group)) for group in _grouped(unclear, same)]
    named = " = ".join(groups)
    return f"{named}, or perhaps {', '.join(others)}" if others else named


def _grouped(items: Sequence[T], same: Callable[[T, T], bool]) -> list[list[T]]:
    """``items`` in their order, those that are the same together."""
    groups: list[list[T]] = []
    for item in items:
        group = next((own for own in groups if same(own[0], item)), None)
        if group is None:
            groups.append([item])
        else:
            group.append(item)
    return groups


def _listed(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if names[1:] else names)


def _title(row: Record, titles: Titles) -> str:
    return titles[row["system"], row["variant"]]


def _sure(lead: Difference) -> str:
    """How certain a lead is, as the end of a sentence."""
    if lead.faster["backend"] == SIMULATED:
        return " (simulated)"
    low, high = lead.interval
    interval = "" if pd.isna(low) else f"95 % interval {low:.2f} to {high:.2f}; "
    if not lead.tested:
        first, second = (len(each["times"]) for each in (lead.faster, lead.slower))
        few = f"{first} and {second} repeats are too few for a rank test"
        return f" ({interval}{few}; {lead.enough} of each are enough)"
    assert lead.p < LEVEL
    if lead.certain:
        return " (no random draw matters)"
    return f" ({interval}rank test p = {lead.p:.2g})"
