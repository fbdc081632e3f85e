"""Sparse Flare's hosts around a switch in virtual time: sums, and how many packets they take."""

from __future__ import annotations

import numpy as np
import pytest
from under_one_switch import STARTS, SWITCH, TREE, VALUES, WINDOW, all_reduce

from testbed import wire
from testbed.hosts.aggregation import Engine, Operation
from testbed.protocols.flare.protocol import PROTOCOL
from testbed.protocols.flare.reference import NOTHING
from testbed.protocols.roles import Member

ENTRIES = VALUES // 2


def sparse(workers, values, density, seed=1):
    random = np.random.default_rng(seed)
    drawn = random.integers(-(2**31), 2**31, (workers, values), np.int64)
    return np.where(random.random((workers, values)) < density, drawn, 0).astype(np.int32)


def packets(gradients, sizes):
    """The packets of each lane: those of its fullest entry in each chunk, and one that ends the
    chunk."""
    needed = first = 0
    for size in sizes:
        union = np.zeros(-(-size // VALUES) * VALUES, bool)
        union[:size] = gradients[:, first : first + size].any(0)
        rows = union.reshape(-1, 2, ENTRIES).sum(1)
        for lane in range(min(WINDOW, len(rows))):
            needed += rows[lane::WINDOW].sum(0).max() + 1
        first += size
    return needed


@pytest.mark.parametrize("density", [1, 0.4, 0.05, 0])
@pytest.mark.parametrize("begins", STARTS)
def test_an_index_that_no_worker_has_is_not_sent(density, begins):
    gradients = sparse(4, 100 * VALUES, density)
    sizes = [100 * VALUES]
    _, seen, again = all_reduce(PROTOCOL, gradients, sizes, begins=begins)
    assert again == 0
    assert len(seen) == len(set(seen)) == packets(gradients, sizes)


@pytest.mark.parametrize("sizes", [(1, 3, 799), (40, 8, 8, 600), (7, 7, 7, 7), (520, 1, 500)])
def test_chunks_of_any_size_follow_one_another(sizes):
    """Even those that do not fill their last packet, and those with fewer packets than lanes."""
    gradients = sparse(3, sum(sizes), 0.2)
    _, seen, _ = all_reduce(PROTOCOL, gradients, sizes)
    if all(size % VALUES == 0 for size in sizes[:-1]):
        assert len(seen) == packets(gradients, sizes)


@pytest.mark.parametrize("density", [0.5, 0.02])
@pytest.mark.parametrize("loss", [0.01, 0.1])
def test_what_is_lost_is_sent_again_until_all_sums_are_there(density, loss):
    gradients = sparse(4, 300 * VALUES, density)
    sizes = [200 * VALUES, 100 * VALUES]
    _, seen, again = all_reduce(PROTOCOL, gradients, sizes, loss)
    assert len(set(seen)) == packets(gradients, sizes)
    assert again >= loss * len(seen)


def test_sums_that_are_zero_are_kept():
    gradients = np.zeros((2, 4 * VALUES), np.int32)
    gradients[:, 5] = 7, -7
    all_reduce(PROTOCOL, gradients, [4 * VALUES])


def result(sequence, slot, pairs):
    made = np.zeros(1, wire.HEADER)
    made["kind"], made["tree"] = wire.KIND_RESULT, TREE
    made["sequence"], made["slot"] = sequence, slot
    return made.tobytes() + np.array(pairs, ">u4").tobytes()


def test_nonsense_changes_nothing():
    none = [NOTHING, 0] * (ENTRIES - 1)
    with Engine(VALUES) as engine:
        engine.add(Member(TREE, PROTOCOL, WINDOW, [0], 0, SWITCH))
        values = np.zeros(VALUES * WINDOW, np.int32)
        values[0] = 5
        before = values.copy()
        engine.push(0, Operation.ALL_REDUCE, values.ctypes.data, values.size)
        engine.pump(1.0)
        list(engine.packets())
        for sequence, slot, index in (
            (0, 0, NOTHING),  # without this host's own pair
            (0, 0, 1),  # beyond it
            (0, 0, 2**31),  # no index
            (8, 0, 0),  # of a later packet
            (0, 1, 0),  # of another lane
            (1, 1, 2),  # beyond the chunk
            (0, 99, 0),
        ):
            engine.take(result(sequence, slot, [index, 9, *none]), 1.1)
        assert (values == before).all()
        engine.take(result(0, 0, [0, 9, *none]), 1.1)
        assert values[0] == 9
        assert not values[1:].any()
