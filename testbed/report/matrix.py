"""The answer as a matrix: the best system by fabric, workload and place of INA."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from testbed.report import canvas, names
from testbed.report.backends import SHORTLY
from testbed.report.ranking import Ranking
from testbed.report.settings import SETTING
from testbed.report.system_style import Series, SystemStyle
from testbed.report.tables import number

SURE, FEW, TIE, ONLY = "sure", "few", "tie", "only"
"""How certain a lead is: tested; too few repeats to test; all tie; nothing to compare with."""


@dataclass(frozen=True)
class Best:
    """The best systems at one place of INA.

    Attributes:
        place: the place of INA as text, such as ``2/8 ToRs``.
        systems: the title and colour of each of them; there are several if they tie.
        jct: the JCT of the fastest as text, in seconds.
        lead: the lead over the first that does not tie, such as ``1.06× Ring``; empty if all tie.
        sure: SURE, FEW, TIE or ONLY; ``how`` is the same in words.
        behind: for every other system, a text that says how far behind it is.
    """

    place: str
    systems: Sequence[tuple[str, str]]
    jct: str
    lead: str
    sure: str
    how: str
    behind: Sequence[str]


@dataclass
class Line:
    """A setting: its titles, its facets for a page's filters, and the best systems by share of
    INA."""

    title: str
    details: str
    facets: Mapping[str, str]
    cells: dict[float, list[Best]] = field(default_factory=dict)


def matrix(
    rankings: Sequence[Ranking], styles: Mapping[Series, SystemStyle]
) -> tuple[list[float], list[Line]]:
    """The shares of switches with INA, which are the columns, and a line for each setting."""
    lines: dict[tuple[Any, ...], Line] = {}
    for ranking in rankings:
        place = ranking.place
        facets = canvas.facets(place["workload"], place["fabric"])
        details = [facets["fabric"], f"{place['workers']} workers"]
        details += [names.settings(place["conditions"])] if place["conditions"] else []
        details += [SHORTLY.get(place["backend"], place["backend"])]
        key = tuple(place[name] for name in SETTING)
        line = lines.setdefault(key, Line(facets["workload"], ", ".join(details), facets))
        share = place["ina_count"] / place["ina_total"] if place["ina_total"] else 0.0
        line.cells.setdefault(share, []).append(_best(ranking, styles))
    found = sorted(lines.values(), key=lambda line: (line.facets["fabric"], line.title))
    return sorted({share for line in found for share in line.cells}), found


def _best(ranking: Ranking, styles: Mapping[Series, SystemStyle]) -> Best:
    own = [styles[row["system"], row["variant"]] for row in ranking.leaders]
    lead = ranking.next
    if lead is None:
        sure = TIE if ranking.tied else ONLY
        how = "no difference" if ranking.tied else "the only one that ran"
        text = ""
    else:
        text = f"{lead.ratio:.2f}× {styles[lead.slower['system'], lead.slower['variant']].title}"
        sure = FEW if lead.lacks_repeats else SURE
        how = lead.sure
    behind = [
        f"{each.ratio:.2f}× {styles[each.slower['system'], each.slower['variant']].title}"
        f" ({each.sure})"
        for each in ranking.behind
    ]
    return Best(
        ranking.place["ina"],
        [(style.title, style.colour) for style in own],
        f"{number(ranking.best['jct_s'])} s",
        text,
        sure,
        how,
        behind,
    )
