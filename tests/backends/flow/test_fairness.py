"""Max-min fairness: textbook cases, and the definition on random cases."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.backends.flow.fairness import in_numpy, max_min


def rates(capacity, flows, caps=None):
    """The rates of ``flows``, each a mapping of link to amount. They are computed in C, and numpy's
    must be equal."""
    entries = [(f, link, amount) for f, load in enumerate(flows) for link, amount in load.items()]
    flow, link, amount = (np.array(column) for column in zip(*entries, strict=True))
    cap = np.full(len(flows), np.inf) if caps is None else np.array(caps, float)
    network = (np.array(capacity, float), flow, link, amount.astype(float), cap)
    found = max_min(*network).tolist()
    # Bit for bit, so that tables do not depend on whether there is a compiler.
    assert in_numpy(*network).tolist() == found
    return found


def test_a_link_is_shared_equally():
    assert rates([9], [{0: 1}] * 3) == pytest.approx([3, 3, 3])


def test_what_one_cannot_use_the_others_get():
    # Bertsekas and Gallager: the first link limits the long flow to 1/3, not the second.
    assert rates([1, 1], [{0: 1, 1: 1}, {0: 1}, {0: 1}, {1: 1}]) == pytest.approx(
        [1 / 3, 1 / 3, 1 / 3, 2 / 3]
    )
    assert rates([10], [{0: 1}, {0: 1}], [2, np.inf]) == pytest.approx([2, 8])


def test_a_tree_is_as_slow_as_its_slowest_edge():
    # One transfer on three links; another stream shares the second of them.
    assert rates([10, 10, 10], [{0: 1, 1: 1, 2: 1}, {1: 1}]) == pytest.approx([5, 5])


def test_who_passes_a_link_twice_pays_twice():
    assert rates([9], [{0: 2}, {0: 1}]) == pytest.approx([3, 3])


def test_a_flow_without_a_link_has_its_cap():
    assert rates([1, 1], [{}, {1: 1}], [7, np.inf]) == pytest.approx([7, 1])
    assert max_min(np.ones(1), *(np.zeros(0, int),) * 2, np.zeros(0), np.array([3.0])) == [3.0]


def test_a_few_flows_on_a_large_fabric():
    assert rates(np.ones(1000), [{998: 1}, {998: 1, 3: 1}]) == pytest.approx([0.5, 0.5])


@st.composite
def networks(draw):
    links = draw(st.integers(1, 6))
    capacity = draw(st.lists(st.floats(1, 100), min_size=links, max_size=links))
    load = st.dictionaries(st.integers(0, links - 1), st.floats(0.5, 3), min_size=1)
    flows = draw(st.lists(load, min_size=1, max_size=12))
    caps = draw(st.lists(st.floats(0.1, 50) | st.just(np.inf), min_size=len(flows)))
    return capacity, flows, caps[: len(flows)]


@settings(max_examples=200, deadline=None)
@given(networks())
def test_each_flow_is_held_where_none_is_faster(network):
    capacity, flows, caps = network
    found = rates(capacity, flows, caps)
    used = [sum(r * load.get(link, 0) for r, load in zip(found, flows, strict=True))
            for link in range(len(capacity))]  # fmt: skip
    assert all(u <= c * (1 + 1e-6) for u, c in zip(used, capacity, strict=True))
    for rate, load, cap in zip(found, flows, caps, strict=True):
        held = rate >= cap * (1 - 1e-6)
        for link in load:
            full = used[link] >= capacity[link] * (1 - 1e-6)
            fastest = max(r for r, other in zip(found, flows, strict=True) if link in other)
            held |= full and rate >= fastest * (1 - 1e-6)
        assert held
