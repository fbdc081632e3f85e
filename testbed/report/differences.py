"""Whether two systems differ, and how certain that is.

The size of a difference comes first: if it is below the noise floor, it is a tie. So are identical
plans. Two systems take the same time only if the whole interval of their ratio is within the floor.
Then comes a rank test of whether the slower one is slower by more than the floor, with Holm's
correction for all comparisons of a table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from math import isnan, nan
from typing import Any

import numpy as np

from testbed.report.backends import EMULATED, FLOOR, SIMULATED
from testbed.report.statistics import LEVEL, holm, least_p, rank_tests, ratio_intervals

_AGREE = 0.001
"""The most by which repeats differ if no random draw matters."""

Record = Mapping[str, Any]
"""A row of `data.summary`."""


@dataclass(frozen=True)
class Difference:
    """How much longer ``slower`` takes than ``faster``, by their means.

    Attributes:
        ratio: the ratio of the mean JCTs, at least 1.
        interval: its 95 % bootstrap interval; nan with too few repeats.
        p: the corrected p of the rank test of a difference above the floor; nan if it was not made.
        floor: the smallest difference that counts here.
        enough: how many repeats of each system a test needs at least, among so many comparisons.
    """

    faster: Record
    slower: Record
    ratio: float
    interval: tuple[float, float]
    p: float
    floor: float
    enough: int

    @property
    def same_plan(self) -> bool:
        """Whether both did the same, so that the whole difference is noise."""
        return same_plan(self.faster, self.slower)

    @property
    def tested(self) -> bool:
        return not isnan(self.p)

    @property
    def same(self) -> bool:
        """Whether both take the same time, up to the floor: the means, and the whole interval of
        their ratio."""
        low, high = self.interval
        whole = isnan(low) or ((1 + self.floor) * low > 1 and high < 1 + self.floor)
        return self.same_plan or (self.ratio < 1 + self.floor and whole)

    @property
    def tie(self) -> str:
        """Why no difference is claimed; empty if one is, or if repeats are too few for a test
        and their interval leaves no doubt."""
        if self.same_plan:
            return "the same plan"
        if self.ratio < 1 + self.floor:
            return f"within {self.floor:.0%}" if self.same else f"means within {self.floor:.0%}"
        if self.tested and self.p >= LEVEL:
            return f"no difference found, p = {self.p:.2g}"
        if not self.tested and self.interval[0] <= 1:
            return "not tested, and the interval of the ratio has 1"
        return ""

    @property
    def lacks_repeats(self) -> bool:
        """Whether a difference is claimed with too few repeats for a test."""
        return not self.tie and not self.tested and self.faster["backend"] != SIMULATED

    @property
    def certain(self) -> bool:
        """Whether each system's repeats agree. Then p says how many they are, and no more. Repeats
        on a real machine that agree do so by chance."""
        return self.faster["backend"] != EMULATED and all(
            agree(each["times"]) for each in (self.faster, self.slower)
        )

    @property
    def sure(self) -> str:
        """How certain the difference is, or why none is claimed, as text."""
        if self.tie:
            return f"tie: {self.tie}"
        if self.lacks_repeats:
            first, second = (len(each["times"]) for each in (self.faster, self.slower))
            return f"too few repeats ({first} and {second}, {self.enough} are enough)"
        if not self.tested:
            return "simulated"
        return "no draw matters" if self.certain else f"p = {self.p:.2g}"


def differences(pairs: Sequence[tuple[Record, Record]]) -> list[Difference]:
    """The difference within each pair of a table, faster first in each result."""
    ordered = [tuple(sorted(pair, key=lambda row: float(row["jct_s"]))) for pair in pairs]
    floors = [FLOOR.get(str(first["backend"]), 0.0) for first, _ in ordered]
    # What does not aggregate in the network is the same at each place of INA: one comparison.
    samples = {
        at: (
            tuple(sorted(first["times"])),
            tuple(sorted(time / (1 + floors[at]) for time in second["times"])),
        )
        for at, (first, second) in enumerate(ordered)
        if first["backend"] != SIMULATED and not same_plan(first, second)
    }
    least = {own: least_p(*map(len, own)) for own in samples.values()}
    # Pairs are not tested if no test could show anything: with too few repeats, or too many
    # comparisons for so few.
    family = sum(p <= LEVEL for p in least.values())
    tested = [own for own, p in least.items() if p * family <= LEVEL and p <= LEVEL]
    enough = next(n for n in count(1) if least_p(n, n) * len(least) <= LEVEL)
    tests = rank_tests([(np.asarray(first), np.asarray(second)) for first, second in tested])
    p_of = dict(zip(tested, holm(tests), strict=True))
    intervals = ratio_intervals([(second["times"], first["times"]) for first, second in ordered])
    return [
        Difference(
            first,
            second,
            ratio=second["jct_s"] / first["jct_s"],
            interval=intervals[at],
            p=p_of.get(samples[at], nan) if at in samples else nan,
            floor=floors[at],
            enough=enough,
        )
        for at, (first, second) in enumerate(ordered)
    ]


def agree(times: Sequence[float]) -> bool:
    """Whether no random draw matters to the time of these repeats."""
    return max(times) < (1 + _AGREE) * min(times)


def same_plan(first: Record, second: Record) -> bool:
    """Whether both had the same plans in all repeats. Older rows have no plans."""
    return first is second or (bool(first["plans"]) and first["plans"] == second["plans"])
