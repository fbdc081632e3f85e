"""Intervals, the rank test and the fairness index, compared with known values."""

from __future__ import annotations

import numpy as np
import pytest

from testbed.report import statistics


def test_the_interval_covers_the_mean_as_often_as_it_says():
    random = np.random.default_rng(1)
    hits = 0
    for _ in range(400):
        low, high = statistics.mean_interval(random.normal(10, 1, 40))
        hits += low <= 10 <= high
    assert 0.90 <= hits / 400 <= 0.98


def test_too_few_values_have_no_interval():
    assert np.isnan(statistics.mean_interval([1.0])).all()
    assert np.isnan(statistics.mean_interval([1.0, 3.0])).all()
    three, one = np.array([1.0, 2.0, 3.0]), np.array([1.0])
    assert np.isnan(statistics.ratio_intervals([(three, one)])).all()
    low, high = statistics.mean_interval([1.0, 2.0, 3.0])
    assert 1.0 <= low < 2.0 < high <= 3.0


def test_the_interval_of_a_ratio_is_around_it():
    random = np.random.default_rng(1)
    pair = random.normal(20, 1, 50), random.normal(10, 1, 50)
    ((low, high),) = statistics.ratio_intervals([pair])
    assert 1.9 < low < 2.0 < high < 2.1


def test_the_order_of_repeats_does_not_move_an_interval():
    random = np.random.default_rng(1)
    first, second = random.normal(20, 1, 9), random.normal(10, 1, 9)
    again = random.permutation(first), random.permutation(second)
    assert statistics.mean_interval(again[0]) == statistics.mean_interval(first)
    assert statistics.ratio_intervals([again]) == statistics.ratio_intervals([(first, second)])


@pytest.mark.parametrize("size", [4, 8, 9, 20])
def test_samples_that_do_not_overlap_have_the_least_p(size):
    low = np.arange(size, dtype=float)
    (p,) = statistics.rank_tests([(low, low + size)])
    assert p == pytest.approx(statistics.least_p(size, size))


def test_rank_tests_agree_with_the_tables_of_mann_and_whitney():
    apart = np.arange(4.0), np.arange(4.0) + 10
    mixed = np.array([1.0, 4.0, 5.0]), np.array([2.0, 3.0, 6.0])
    p = statistics.rank_tests([apart, mixed, (np.ones(3), np.full(3, 2.0))])
    assert p[0] == pytest.approx(2 / 70)
    assert p[1] == pytest.approx(1.0)
    # Three against three can never reach 5 %, not even with ties.
    assert p[2] == pytest.approx(statistics.least_p(3, 3)) == pytest.approx(0.1)


def test_ranks_against_the_means_are_no_evidence_for_them():
    """One outlier makes the second mean larger; nine of its ten values are smaller."""
    first = np.arange(10, 10.1, 0.01)[:10]
    second = np.array([*np.arange(8, 8.09, 0.01)[:9], 60])
    assert first.mean() < second.mean()
    assert statistics.rank_tests([(first, second)]) == [1.0]
    assert statistics.rank_tests([(second, first)])[0] < 0.01


def test_holms_correction_agrees_with_a_worked_example():
    # Holm (1979): 0.01, 0.02, 0.04 become 3, 2 and 1 times as much, and never fall.
    assert statistics.holm([0.04, 0.01, 0.02]) == pytest.approx([0.04, 0.03, 0.04])
    assert statistics.holm([0.6, 0.5]) == [1.0, 1.0]
    assert statistics.holm([]) == []


def test_jains_index():
    assert statistics.jain([3, 3, 3]) == pytest.approx(1)
    assert statistics.jain([1, 0, 0, 0]) == pytest.approx(1 / 4)
