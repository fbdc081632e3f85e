"""Quantised sums are as close to the float sum as the scheme promises."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from testbed.workload.quantise import (
    BLOCK,
    INT32_MAX,
    SCHEMES,
    BlockExponent,
    Factor,
    Float32,
    block_sum,
    errors,
    exponents,
    fixed_sum,
    relative_error,
    to_blocks,
)


def drawn(seed: int, workers: int, values: int, spread: float = 8) -> Float32:
    """Gradients whose blocks differ in magnitude by powers of ``spread``."""
    rng = np.random.default_rng(seed)
    scale = spread ** rng.normal(size=-(-values // BLOCK)).repeat(BLOCK)[:values]
    return (rng.normal(size=(workers, values)) * scale).astype(np.float32)


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=8))
def test_an_exponent_is_the_least_power_of_two_that_reaches(values: list[float]) -> None:
    block = np.array([values], np.float32)
    (exponent,) = exponents(block)[0]
    largest = float(np.abs(block).max())
    assert largest <= 2.0**exponent
    assert largest > 2.0 ** (exponent - 1) or largest == 0


@given(st.integers(0, 1000), st.integers(1, 64), st.integers(1, 600))
def test_block_sums_err_by_half_a_step_a_worker_at_most(
    seed: int, workers: int, values: int
) -> None:
    gradients = drawn(seed, workers, values)
    exact = gradients.sum(axis=0, dtype=np.float64)
    step = np.ldexp(1.0 / (INT32_MAX // workers), exponents(gradients).max(axis=0))
    bound = workers / 2 * step.repeat(BLOCK)[:values] + np.abs(exact) * 2.0**-24
    assert np.all(np.abs(block_sum(gradients) - exact) <= bound * (1 + 1e-9))


@given(st.integers(1, 64), st.sampled_from([1.0, -1.0, 0.75]))
def test_block_sums_never_overflow(workers: int, value: float) -> None:
    # All workers have the block's largest magnitude, so the sum is int32's maximum or just below.
    gradients = np.full((workers, 3), value, np.float32)
    sent = to_blocks(gradients, exponents(gradients).max(axis=0), workers)
    assert abs(sent.astype(np.int64).sum(axis=0)).max() <= INT32_MAX
    assert block_sum(gradients) == pytest.approx(np.full(3, workers * value), rel=1e-6)


def test_fixed_sums_round_to_the_factor_and_saturate() -> None:
    gradients = np.array([[1.4e-6, 3000.0, -3000.0], [0.4e-6, 1.0, -1.0]], np.float32)
    least, most = np.float32(-(2**31) / 1e6), np.float32(INT32_MAX / 1e6)
    assert fixed_sum(gradients) == pytest.approx(np.array([1e-6, most, least], np.float32))


def test_small_gradients_are_lost_to_a_fixed_factor_but_not_to_block_exponents() -> None:
    gradients = drawn(1, 8, 5000) * np.float32(1e-7)
    found = errors(gradients)
    assert found["int32, factor 1e6 (ATP)"] > 0.3
    assert found["int32, block exponent (SwitchML)"] < 1e-6


def test_every_scheme_keeps_the_shape_and_sums_zeros_to_zero() -> None:
    zeros = np.zeros((3, 300), np.float32)
    for scheme in SCHEMES.values():
        total = scheme(zeros)
        assert total.shape == (300,) and total.dtype == np.float32 and not total.any()
        assert relative_error(total, zeros) == 0


@given(
    st.integers(0, 1000),
    st.integers(1, 64),
    st.integers(1, 600),
    st.sampled_from([64, 256, 1024]),
    st.integers(0, 2**16),
)
@example(359, 1, 157, 64, 767)
def test_what_a_job_sums_by_block_exponents_stands_for_the_exact_sum(
    seed: int, workers: int, values: int, block: int, room: int
) -> None:
    gradients = drawn(seed, workers, values)
    quantiser = BlockExponent.agreed(list(gradients), workers, block, room)
    sent = [quantiser.quantise(each).astype(np.int64) + room for each in gradients]
    total = sum(sent, np.zeros(values, np.int64))
    assert np.abs(total).max() <= INT32_MAX  # with the room fully used
    restored = quantiser.restore((total - workers * room).astype(np.float64))
    step = np.ldexp(1.0 / (INT32_MAX // workers - room), quantiser.exponent)
    exact = gradients.sum(axis=0, dtype=np.float64)
    bound = workers / 2 * step.repeat(block)[:values] * (1 + 1e-9)
    # ``restored`` and the difference are rounded, too.
    assert np.all(np.abs(restored - exact) <= bound + np.spacing(np.abs(exact)))


def test_what_a_job_sums_by_a_factor_stands_for_the_exact_sum_up_to_a_step() -> None:
    gradients = drawn(3, 5, 700)
    quantiser = Factor(1e4)
    total = np.add.reduce([quantiser.quantise(each) for each in gradients], dtype=np.float64)
    distance = np.abs(quantiser.restore(total) - gradients.sum(axis=0, dtype=np.float64))
    assert distance.max() <= 5 / 2 / 1e4 * (1 + 1e-9)
    assert Factor(1e9).quantise(np.array([-3, 3], np.float32)).tolist() == [-INT32_MAX, INT32_MAX]
