"""Which ToRs aggregate, and who works where."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.topology.builders import leaf_spine
from testbed.topology.placement import ina_tors, packed, spread

racks = st.lists(st.integers(0, 6), min_size=1, max_size=6).filter(any)


def built(racks):
    return leaf_spine(1, len(racks), racks, 1, 1, 1)


@st.composite
def wanted(draw):
    """A fabric, hosts that are taken, and a count that the rest can fill."""
    fabric = built(draw(racks))
    taken = draw(st.sets(st.sampled_from(fabric.hosts)))
    return fabric, taken, draw(st.integers(0, len(fabric.hosts) - len(taken)))


def rack_counts(fabric, hosts):
    counts = Counter(fabric.tor_of(host) for host in hosts)
    return [counts[tor] for tor in fabric.tors]


@pytest.mark.parametrize("policy", [packed, spread])
@given(wanted())
def test_free_hosts_are_chosen_once_and_listed_rack_by_rack(policy, case):
    fabric, taken, count = case
    chosen = policy(fabric, count, taken)
    assert len(chosen) == len(set(chosen)) == count
    assert not set(chosen) & taken
    order = {host: index for index, host in enumerate(fabric.hosts)}
    assert sorted(chosen, key=order.__getitem__) == list(chosen)


@given(wanted())
def test_packed_begins_a_rack_when_the_one_before_is_full(case):
    fabric, taken, count = case
    free = rack_counts(fabric, [host for host in fabric.hosts if host not in taken])
    used = rack_counts(fabric, packed(fabric, count, taken))
    for index in range(len(used) - 1):
        if any(used[index + 1 :]):
            assert used[index] == free[index]


@given(wanted())
def test_spread_fills_racks_evenly(case):
    fabric, taken, count = case
    free = rack_counts(fabric, [host for host in fabric.hosts if host not in taken])
    used = rack_counts(fabric, spread(fabric, count, taken))
    # A rack has at most one more than any other that had room left.
    for mine in used:
        for theirs, room in zip(used, free, strict=True):
            assert mine <= theirs + 1 or theirs == room


@pytest.mark.parametrize("policy", [packed, spread])
def test_too_many_are_refused(policy):
    with pytest.raises(ValueError, match="5 hosts wanted, 4 free"):
        policy(built([3, 3]), 5, {"h0", "h5"})


@given(racks, st.floats(0, 1))
def test_a_fraction_is_the_nearest_count_of_the_fullest_racks(racks, fraction):
    fabric = built(racks)
    chosen = ina_tors(fabric, fraction)
    assert abs(len(chosen) - fraction * len(racks)) <= 0.5001
    size = {tor: len(fabric.rack_hosts(tor)) for tor in fabric.tors}
    left = [size[tor] for tor in fabric.tors if tor not in chosen]
    assert min((size[tor] for tor in chosen), default=9) >= max(left, default=0)


@pytest.mark.parametrize(
    ("fraction", "chosen"),
    [(0, set()), (0.5, {"t1", "t2"}), (1 / 3, {"t1"}), (1, {"t0", "t1", "t2"})],
)
def test_fractions_of_three(fraction, chosen):
    assert ina_tors(built([1, 3, 2]), fraction) == chosen
