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
LEVEL = 0.05
_RESAMPLES = 2000
_EXACT = 20
"""Up to this many values, the rank test is exact. It takes a millisecond."""
_AT_ONCE = 128
"""How many samples are resampled together. This takes 2 MB for each value of a sample."""


def mean_interval(values: npt.ArrayLike) -> Interval:
    """The 95 % percentile bootstrap interval of the mean (Efron); nan below LEAST values."""
    return mean_intervals([np.asarray(values, float)])[0]


def mean_intervals(samples: Sequence[Floats]) -> list[Interval]:
    """The `mean_interval` of each sample, which is faster for all samples together."""
    return _intervals([(sample,) for sample in samples])


def ratio_intervals(pairs: Sequence[tuple[Floats, Floats]]) -> list[Interval]:
    """The same for the ratio of the two means of each pair. Both are resampled; nan if either
    sample has fewer than LEAST values."""
    return _intervals(pairs)


def _intervals(groups: Sequence[tuple[Floats, ...]]) -> list[Interval]:
    """The interval of the mean of the first sample of each group, over that of the second."""
    alike: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for place, samples in enumerate(groups):
        alike[tuple(map(len, samples))].append(place)
    found = [(nan, nan)] * len(groups)
    for sizes, places in alike.items():
        if min(sizes) < LEAST:
            continue
        for begin in range(0, len(places), _AT_ONCE):
            some = places[begin : begin + _AT_ONCE]
            means, *below = (
                _means(np.array([groups[place][side] for place in some]), side)
                for side in range(len(sizes))
            )
            for other in below:
                means = means / other
            low, high = np.quantile(means, [0.025, 0.975], axis=1)
            for place, *ends in zip(some, low, high, strict=True):
                found[place] = float(ends[0]), float(ends[1])
    return found


def rank_tests(pairs: Sequence[tuple[Floats, Floats]]) -> list[float]:
    """Two-sided p of the Mann-Whitney U test of each pair of samples, against the first one being
    smaller: 1 if rather the second one is.

    It is exact, but for ties, if a sample has at most 20 values. The normal approximation is
    several times off for the smallest p, which a correction for hundreds of tests needs.
    """
    if not pairs:
        return []
    from scipy.stats import mannwhitneyu  # takes a second to import, and only some reports need it

    alike: dict[tuple[int, int], list[int]] = defaultdict(list)
    for place, (first, second) in enumerate(pairs):
        alike[len(first), len(second)].append(place)
    found = [nan] * len(pairs)
    for sizes, places in alike.items():
        first, second = (np.array([pairs[place][side] for place in places]) for side in (0, 1))
        method = "exact" if min(sizes) <= _EXACT else "asymptotic"
        p = mannwhitneyu(first, second, alternative="less", axis=1, method=method).pvalue
        for place, value in zip(places, p, strict=True):
            found[place] = min(1.0, 2 * float(value))
    return found


def holm(values: Sequence[float]) -> list[float]:
    """The ``values`` of p, corrected because they are tests of one family, in the same order.

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
def draws(count: int, stream: int) -> npt.NDArray[np.intp]:
    """The places of ``count`` values drawn with replacement, for each resample of a bootstrap:
    int[resamples, count]."""
    return np.random.default_rng(stream).integers(0, count, (_RESAMPLES, count))


def _means(samples: Floats, stream: int) -> Floats:
    """The mean of each resampling of each row of ``samples``, whatever the order of its values."""
    ordered = np.sort(samples, axis=1)
    means: Floats = ordered[:, draws(samples.shape[1], stream)].mean(axis=2)
    return means
