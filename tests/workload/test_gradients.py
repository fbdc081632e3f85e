"""The sum of the gradients is the one that the check expects, and wrong sums are found."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.workload.gradients import Gradients, Int32

seeds = st.integers(0, 2**63)
rank_counts = st.integers(1, 16)
iterations = st.integers(0, 10_000)


def contribution(gradients: Gradients, rank: int, iteration: int) -> Int32:
    out = np.empty(gradients.elements, np.int32)
    gradients.fill(rank, iteration, out)
    return out


def wrapped(total: np.ndarray) -> Int32:
    """An int64 sum as int32 with wrap-around, as in a switch's registers."""
    return ((total + 2**31) % 2**32 - 2**31).astype(np.int32)


def summed(gradients: Gradients, iteration: int) -> Int32:
    parts = [contribution(gradients, rank, iteration) for rank in range(gradients.ranks)]
    return wrapped(np.sum(np.array(parts, np.int64), axis=0))


@given(seeds, rank_counts, st.integers(1, 300), iterations)
def test_the_sum_is_the_total_and_the_offset(
    seed: int, ranks: int, elements: int, iteration: int
) -> None:
    gradients = Gradients(seed, ranks, elements)
    received = summed(gradients, iteration)
    assert gradients.wrong(received, 0, iteration) == 0


@given(seeds, st.integers(8, 16), iterations)
def test_it_is_so_when_sums_wrap_around(seed: int, ranks: int, iteration: int) -> None:
    gradients = Gradients(seed, ranks, 500, fixed_point=29)
    exact = sum(gradients.base(rank).astype(np.int64) for rank in range(ranks))
    assert np.any(np.abs(exact) > 2**31), "this test must wrap around"
    received = summed(gradients, iteration)
    assert gradients.wrong(received, 0, iteration) == 0


@given(seeds, rank_counts, iterations, st.integers(0, 299), st.integers(0, 31))
def test_one_wrong_bit_is_found(
    seed: int, ranks: int, iteration: int, place: int, bit: int
) -> None:
    gradients = Gradients(seed, ranks, 300)
    received = summed(gradients, iteration)
    received.view(np.uint32)[place] ^= np.uint32(1 << bit)
    assert gradients.wrong(received, 0, iteration) == 1


@given(seeds, rank_counts, iterations, st.integers(1, 1000))
def test_a_sum_of_another_iteration_is_wrong_everywhere(
    seed: int, ranks: int, iteration: int, later: int
) -> None:
    gradients = Gradients(seed, ranks, 50)
    received = summed(gradients, iteration)
    wrong = gradients.wrong(received, 0, iteration + later)
    assert wrong == 50


@given(seeds, st.integers(2, 16), iterations, st.data())
def test_a_stale_missing_or_repeated_contribution_is_found(
    seed: int, ranks: int, iteration: int, data: st.DataObject
) -> None:
    gradients = Gradients(seed, ranks, 50)
    good = summed(gradients, iteration)
    rank = data.draw(st.integers(0, ranks - 1))
    mine = contribution(gradients, rank, iteration)
    stale = good - mine + contribution(gradients, rank, iteration + 1)
    assert gradients.wrong(stale, 0, iteration) == 50
    # A single value may be 0 by chance; if it is missing, that makes no difference.
    assert gradients.wrong(good - mine, 0, iteration) >= 49
    assert gradients.wrong(good + mine, 0, iteration) >= 49


def test_a_slice_is_a_slice_of_the_whole() -> None:
    gradients = Gradients(1, 3, 1000)
    out = np.empty(100, np.int32)
    gradients.fill(2, 5, out, start=300)
    assert np.array_equal(out, contribution(gradients, 2, 5)[300:400])


@pytest.mark.parametrize("start", [-1, 6, 9, 10])
def test_a_slice_past_an_end_is_refused(start: int) -> None:
    with pytest.raises(ValueError, match="of 10"):
        Gradients(1, 1, 10).fill(0, 0, np.empty(5, np.int32), start=start)


def test_the_same_job_gives_the_same_values_in_another_process() -> None:
    mine, other = Gradients(7, 4, 1000), Gradients(7, 4, 1000)
    other.base(3)
    assert np.array_equal(mine.base(3), other.base(3))
    assert np.array_equal(mine.expected_total(), other.expected_total())
    assert mine.offset_of(9, 0, 1000) == other.offset_of(9, 0, 1000)


def test_seeds_and_ranks_differ() -> None:
    bases = [Gradients(seed, 2, 1000).base(rank) for seed in (1, 2) for rank in (0, 1)]
    for i, first in enumerate(bases):
        for second in bases[i + 1 :]:
            assert np.count_nonzero(first == second) < 10


def test_magnitudes_are_realistic() -> None:
    base = Gradients(1, 1, 100_000).base(0)
    assert np.abs(base).max() <= 2**24
    assert abs(float(base.mean())) < 2**20 * 0.02
    assert float(base.std()) == pytest.approx(2**20, rel=0.02)


def test_bases_cannot_be_changed() -> None:
    gradients = Gradients(1, 1, 10)
    with pytest.raises(ValueError, match="read-only"):
        gradients.base(0)[0] = 1
    with pytest.raises(ValueError, match="read-only"):
        gradients.expected_total()[0] = 1


def test_what_could_hide_a_wrong_value_is_refused() -> None:
    gradients = Gradients(1, 2, 10)
    total = gradients.expected_total()
    with pytest.raises(TypeError, match="int32"):
        gradients.wrong(total.astype(np.int64), 0, 0)
    with pytest.raises(ValueError, match="values"):
        gradients.wrong(total, 1, 0)


@pytest.mark.parametrize(("seed", "ranks", "elements"), [(1, 0, 1), (1, 1, 0), (-1, 1, 1)])
def test_impossible_jobs_are_refused(seed: int, ranks: int, elements: int) -> None:
    with pytest.raises(ValueError, match="wanted"):
        Gradients(seed, ranks, elements)


@pytest.mark.parametrize("rank", [-1, 2])
def test_a_rank_that_is_not_there_is_refused(rank: int) -> None:
    with pytest.raises(ValueError, match="rank"):
        Gradients(1, 2, 1).base(rank)


@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=6),
    st.integers(0, 50),
    st.sampled_from([20, 30]),
)
def test_accumulated_gradients_are_the_sum_of_each_one(
    counts: list[int], start: int, fixed_point: int
) -> None:
    gradients = Gradients(3, len(counts), 60, fixed_point)
    total = np.zeros(60, np.int64)
    for rank, count in enumerate(counts):
        for iteration in range(count):
            total += contribution(gradients, rank, iteration)
    found = gradients.accumulated(counts, start, 60)
    assert found.dtype == np.int32
    assert np.array_equal(found, wrapped(total)[start:])


@given(seeds, rank_counts, iterations, st.sampled_from([0, 20, 30]))
def test_the_float_sum_is_the_exact_one_rounded_once(
    seed: int, ranks: int, iteration: int, fixed_point: int
) -> None:
    gradients = Gradients(seed, ranks, 40, fixed_point)
    found = gradients.float_total(iteration, 5, 40)
    assert found.dtype == np.float32
    sent = [gradients.values(rank, iteration, 5, 40).astype(np.float32) for rank in range(ranks)]
    for place, total in enumerate(found):
        exact = sum(int(values[place]) for values in sent)  # Python's int: no rounding
        assert total == np.float32(exact)


def test_the_float_sum_is_no_order_s_float32_sum() -> None:
    # A sum in float32 would depend on the order, so it could not be checked bit for bit.
    gradients = Gradients(1, 16, 1000, 30)
    parts = [gradients.values(rank, 0, 0, 1000).astype(np.float32) for rank in range(16)]
    forwards, backwards = sum(parts), sum(reversed(parts))
    assert np.any(forwards != backwards)
    assert np.any(forwards != gradients.float_total(0, 0, 1000))


def test_values_are_what_a_rank_sends() -> None:
    gradients = Gradients(2, 3, 100)
    whole = contribution(gradients, 1, 7)
    assert np.array_equal(gradients.values(1, 7, 20, 90), whole[20:90])
    with pytest.raises(ValueError, match="of 100"):
        gradients.values(1, 7, 90, 101)


@pytest.mark.parametrize("fixed_point", [0, 10, 29])
def test_the_fixed_point_sets_the_deviation(fixed_point: int) -> None:
    base = Gradients(1, 1, 100_000, fixed_point).base(0)
    wanted = 2**fixed_point
    # At 29 bits a few values are clipped at int32's limits; at 0, rounding adds 1/12 to the
    # variance.
    assert float(base.std()) == pytest.approx(wanted, rel=0.05)


@pytest.mark.parametrize("fixed_point", [-1, 31])
def test_a_fixed_point_beyond_int32_is_refused(fixed_point: int) -> None:
    with pytest.raises(ValueError, match="wanted 0 to 30"):
        Gradients(1, 1, 1, fixed_point)


def test_there_is_one_count_a_rank() -> None:
    with pytest.raises(ValueError, match="1 counts for 2 ranks"):
        Gradients(1, 2, 10).accumulated([1], 0, 10)
