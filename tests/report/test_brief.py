"""The answer in few rows."""

from __future__ import annotations

from collections.abc import Mapping
from math import nan
from typing import Any

import pytest

from testbed.report.brief import brief
from testbed.report.differences import Difference
from testbed.report.ranking import Ranking

TITLES = {(name, ""): name.upper() for name in ("ps", "ring", "rina", "atp", "grid")}


def ranking(
    ina: str,
    equal: str,
    jct_s: float,
    unclear: str = "",
    slower: str = "",
    workload: str = "bert-base",
    plans: Mapping[str, str] | None = None,
    p: float = 0.01,
) -> Ranking:
    def row(system: str, times_as_long: float) -> dict[str, Any]:
        own = (plans or {}).get(system)
        found = {"system": system, "variant": "", "jct_s": jct_s * times_as_long}
        found["backend"] = "packet"
        return {**found, "plans": (own,) if own else ()}

    def behind(names: str, ratio: float, p: float) -> list[Difference]:
        interval = (ratio, ratio)
        rows = [row(name, ratio) for name in names.split()]
        return [Difference(best, each, ratio, interval, p, 0.02, 4) for each in rows]

    first, *others = equal.split()
    best = row(first, 1.0)
    place = {"fabric": "fat-tree", "workers": 12, "conditions": "{}", "backend": "packet"}
    place["workload"] = workload
    found = behind(" ".join(others), 1.0, 0.5) + behind(unclear, 1.3, 0.5) + behind(slower, 1.5, p)
    return Ranking({**place, "ina": f"{ina} ToRs"}, best, found)


def rows(*rankings: Ranking) -> list[list[str]]:
    return [row[2:] for row in brief(rankings, TITLES)[1]]


def test_places_with_the_same_answer_have_one_row():
    found = rows(
        ranking("0/4", "ring rina atp", 1.0, "ps", "grid"),
        ranking("1/4", "ring rina", 1.001, "ps", "atp"),
        ranking("2/4", "rina ring", 1.0, "ps", "atp"),
        ranking("4/4", "rina", 0.5, slower="ring"),
    )
    assert found == [
        ["0/4 to 2/4 ToRs", "RING = RINA, or perhaps PS", "1", "GRID, ATP", "1.5"],
        ["4/4 ToRs", "RINA", "0.5", "RING", "1.5"],
    ]


def test_who_is_slower_at_one_place_is_not_perhaps_the_fastest():
    found = rows(
        ranking("0/4", "ring", 1.0, "ps atp", "grid"), ranking("1/4", "ring", 1.0, "ps", "atp grid")
    )
    assert found == [["0/4 to 1/4 ToRs", "RING, or perhaps PS", "1", "GRID, ATP", "1.5"]]


def test_a_lead_that_no_test_supports_is_marked():
    (found,) = rows(
        ranking("0/4", "ring", 1.0, slower="grid"),
        ranking("1/4", "ring", 1.0, slower="grid", p=nan),
    )
    assert found[-1] == "1.5 (too few repeats to test)"


def test_places_where_all_tie_have_a_row_of_their_own():
    found = rows(ranking("0/4", "ring", 1.0, slower="grid"), ranking("1/4", "ring grid", 1.0))
    assert [row[:2] for row in found] == [["0/4 ToRs", "RING"], ["1/4 ToRs", "RING = GRID"]]


def test_the_same_plan_is_told_from_the_same_time():
    found = rows(
        ranking("0/4", "ring ps rina", 1.0, plans={"ring": "a", "rina": "a"}),
        ranking("1/4", "ring ps rina", 1.0, plans={"ring": "a", "rina": "a"}),
    )
    assert [row[1] for row in found] == ["RING ≡ RINA = PS"]
    found = rows(
        ranking("0/4", "ring rina", 1.0, plans={"ring": "a", "rina": "a"}),
        ranking("1/4", "ring rina", 1.0, plans={"ring": "a", "rina": "b"}),
    )
    assert [row[1] for row in found] == ["RING = RINA"]


@pytest.mark.parametrize(
    "second",
    [
        ranking("1/4", "atp", 1.0),
        ranking("1/4", "ring", 0.97),
        ranking("1/4", "ring", 1.0, workload="vgg16"),
    ],
)
def test_another_system_time_or_setting_has_a_row_of_its_own(second):
    assert len(rows(ranking("0/4", "ring", 1.0), second)) == 2


def test_a_range_is_of_systems_that_are_fastest_in_all_of_it():
    """Two that follow one another may share a system that the first does not have."""
    found = rows(
        ranking("0/4", "ring ps", 1.0), ranking("1/4", "ps atp", 1.0), ranking("2/4", "atp", 1.0)
    )
    assert [row[:2] for row in found] == [["0/4 to 1/4 ToRs", "PS"], ["2/4 ToRs", "ATP"]]
