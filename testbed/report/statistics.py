"""Statistics of results: bootstrap intervals, the rank test, and Jain's index."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from math import comb, nan

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Interval = tuple[float, float]

LEAST = 3
"""The fewest repeats that get an interval."""
FEW = 5
"""The fewest repeats whose interval needs no warning; with fewer it is too narrow."""
LEVEL = 0.05
_RESAMPLES = 2000
_EXACT = 8


def mean_interval(values: npt.ArrayLike) -> Interval:
    """The 95 % percentile bootstrap interval of the mean (Efron); nan below LEAST values."""
    sample = np.asarray(values, float)
    if len(sample) < LEAST:
        return nan, nan
    return _middle(_means(sample, 0))


def ratio_interval(above: npt.ArrayLike, below: npt.ArrayLike) -> Interval:
    """The same for the ratio of two means, both resampled; nan if either has too few values."""
    first, second = np.asarray(above, float), np.asarray(below, float)
    if min(len(first), len(second)) < LEAST:
        return nan, nan
    return _middle(_means(first, 0) / _means(second, 1))


def rank_tests(pairs: Sequence[tuple[Floats, Floats]]) -> list[float]:
    """Two-sided p of the Mann-Whitney U test of each pair of samples.

    Exact if a sample has at most eight values: an approximation could give a p that is too small.
    """
    from scipy.stats import mannwhitneyu  # takes a second to import, and only some reports need it

    alike: dict[tuple[int, int], list[int]] = defaultdict(list)
    for place, (first, second) in enumerate(pairs):
        alike[len(first), len(second)].append(place)
    found = [nan] * len(pairs)
    for sizes, places in alike.items():
        first, second = (np.array([pairs[place][side] for place in places]) for side in (0, 1))
        method = "exact" if min(sizes) <= _EXACT else "asymptotic"
        p = mannwhitneyu(first, second, axis=1, method=method).pvalue
        for place, value in zip(places, p, strict=True):
            found[place] = float(value)
    return found


def holm(values: Sequence[float]) -> list[float]:
    """``values`` of p, corrected for being tests of one family, in their order.

    Holm, A Simple Sequentially Rejective Multiple Test Procedure, Scand. J. Statist. 6(2), 1979.
    """
    corrected = [nan] * len(values)
    largest = 0.0
    for tried, at in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        largest = max(largest, min(1.0, values[at] * (len(values) - tried)))
        corrected[at] = largest
    return corrected


def least_p(first: int, second: int) -> float:
    """The smallest two-sided p that the rank test can give for samples of these sizes."""
    return min(1.0, 2 / comb(first + second, first))


def jain(values: npt.ArrayLike) -> float:
    """Jain's fairness index: 1 if all are equal, 1/n if one has all.

    Jain, Chiu and Hawe, A Quantitative Measure of Fairness and Discrimination, DEC-TR-301, 1984.
    """
    shares = np.asarray(values, float)
    return float(shares.sum() ** 2 / (len(shares) * (shares**2).sum()))


@cache
def _draws(count: int, stream: int) -> npt.NDArray[np.intp]:
    return np.random.default_rng(stream).integers(0, count, (_RESAMPLES, count))


def _means(sample: Floats, stream: int) -> Floats:
    means: Floats = sample[_draws(len(sample), stream)].mean(axis=1)
    return means


def _middle(means: Floats) -> Interval:
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)
