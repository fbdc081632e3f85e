"""Gradients with blocks of zeros."""

from __future__ import annotations

import numpy as np
import pytest

from testbed.workload import values
from testbed.workload.sparse import SparseGradients, union_of

BLOCKS = [8] * 400 + [3] + [8] * 200 + [1]


def drawn(density, ranks=4, **others):
    return SparseGradients(3, ranks, BLOCKS, density, **others)


def blocks_of(row):
    return np.split(row, np.cumsum(BLOCKS)[:-1])


@pytest.mark.parametrize("density", [1, 0.4, 0.01])
def test_the_share_of_blocks_that_are_not_zero_is_the_density(density):
    gradients = drawn(density)
    for rank in range(4):
        filled = [block.any() for block in blocks_of(gradients.values(rank, 2, 0, sum(BLOCKS)))]
        assert sum(filled) == round(density * len(BLOCKS))
        assert (gradients.filled[rank] == filled).all()
    assert gradients.union == pytest.approx(1 - (1 - density) ** 4, abs=0.05)


def test_ranks_have_other_blocks_and_iterations_the_same():
    gradients = drawn(0.3)
    assert (gradients.filled[0] != gradients.filled[1]).any()
    first, later = (gradients.values(0, each, 0, sum(BLOCKS)) for each in (0, 5))
    assert ((first != 0) == (later != 0)).all()
    assert (first != later)[first != 0].all()


@pytest.mark.parametrize("density", [0.4, 0.01])
@pytest.mark.parametrize("iteration", [0, 9])
def test_the_sum_is_known_and_wrong_ones_are_found(density, iteration):
    gradients, size = drawn(density), sum(BLOCKS)
    gradients.draw()
    total = np.sum([gradients.values(r, iteration, 0, size) for r in range(4)], 0, dtype=np.int32)
    assert gradients.wrong(total, 0, iteration) == 0
    assert gradients.wrong(total[100:900], 100, iteration) == 0
    assert (gradients.total(iteration, 50, 70) == total[50:70]).all()
    shared = int(np.count_nonzero(total))
    assert gradients.wrong(total, 0, iteration + 1) == shared
    without = total - gradients.values(2, iteration, 0, size)
    assert gradients.wrong(without, 0, iteration) >= sum(BLOCKS) * density * 0.9
    total[7] ^= 1
    assert gradients.wrong(total, 0, iteration) == 1
    with pytest.raises(TypeError, match="int64"):
        gradients.wrong(total.astype(np.int64), 0, iteration)


def test_recorded_gradients_keep_their_own_zeros():
    sample = values.load("vgg16")
    # Blocks of the sample begin packets, even behind one that is partly filled.
    gradients = SparseGradients(1, 8, [77, *[256] * 600], "recorded", sample=sample)
    union = union_of(sample, 8, 256)
    assert 0.5 < union < 0.9
    assert gradients.union == pytest.approx(union, abs=0.1)
    row = gradients.values(3, 1, 77, 77 + 600 * 256).reshape(600, 256)
    assert (row.any(1) == gradients.filled[3][1:]).all()
    total = np.sum([gradients.values(r, 1, 0, 2560) for r in range(8)], 0, dtype=np.int32)
    assert gradients.wrong(total, 0, 1) == 0
    # Sixteen ranks have two sets of places.
    assert union_of(sample, 16, 256) == pytest.approx(1 - (1 - union) ** 2)


def test_the_exact_sum_has_the_same_zeros():
    sample = values.load("resnet50")
    gradients = SparseGradients(1, 3, BLOCKS, 0.2, sample=sample)
    zero = np.repeat(~gradients.filled.any(0), BLOCKS)
    assert not gradients.exact_total()[zero].any()
    assert gradients.exact_total()[~zero].any()


@pytest.mark.parametrize("density", [0, 1.5, -1, "recorded"])
def test_impossible_densities_are_refused(density):
    with pytest.raises(ValueError, match="density"):
        drawn(density)
