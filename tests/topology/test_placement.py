"""Which switches aggregate, and which hosts are workers."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.topology.builders import fat_tree, leaf_spine
from testbed.topology.placement import ina_switches, place

POLICIES = ("packed", "spread", "random")

racks = st.lists(st.integers(0, 6), min_size=1, max_size=6).filter(any)


def built(racks):
    return leaf_spine(1, len(racks), racks, 1, 1, 1)


@st.composite
def wanted(draw):
    """A fabric, hosts that are taken, and a number of hosts that are still free."""
    fabric = built(draw(racks))
    taken = draw(st.sets(st.sampled_from(fabric.hosts)))
    return fabric, taken, draw(st.integers(0, len(fabric.hosts) - len(taken)))


def rack_counts(fabric, hosts):
    counts = Counter(fabric.tor_of(host) for host in hosts)
    return [counts[tor] for tor in fabric.tors]


@pytest.mark.parametrize("policy", POLICIES)
@given(wanted())
def test_free_hosts_are_chosen_once_and_listed_rack_by_rack(policy, case):
    fabric, taken, count = case
    chosen = place(fabric, policy, count, taken)
    assert len(chosen) == len(set(chosen)) == count
    assert not set(chosen) & taken
    order = {host: index for index, host in enumerate(fabric.hosts)}
    assert sorted(chosen, key=order.__getitem__) == list(chosen)


@given(wanted())
def test_packed_begins_a_rack_when_the_one_before_is_full(case):
    fabric, taken, count = case
    free = rack_counts(fabric, [host for host in fabric.hosts if host not in taken])
    used = rack_counts(fabric, place(fabric, "packed", count, taken))
    for index in range(len(used) - 1):
        if any(used[index + 1 :]):
            assert used[index] == free[index]


@given(wanted())
def test_spread_fills_racks_evenly(case):
    fabric, taken, count = case
    free = rack_counts(fabric, [host for host in fabric.hosts if host not in taken])
    used = rack_counts(fabric, place(fabric, "spread", count, taken))
    # A rack has at most one worker more than any other rack with free hosts.
    for mine in used:
        for theirs, room in zip(used, free, strict=True):
            assert mine <= theirs + 1 or theirs == room


def test_random_hosts_are_those_of_the_seed():
    fabric = built([6] * 6)
    chosen = [place(fabric, "random", 6, seed=seed) for seed in range(60)]
    assert chosen == [place(fabric, "random", 6, seed=seed) for seed in range(60)]
    assert len(set(chosen)) > 50
    assert set().union(*chosen) == set(fabric.hosts)


@pytest.mark.parametrize("policy", POLICIES)
def test_too_many_are_refused(policy):
    with pytest.raises(ValueError, match="5 hosts wanted, 4 free"):
        place(built([3, 3]), policy, 5, {"h0", "h5"})


@given(racks, st.floats(0, 1))
def test_a_fraction_is_the_nearest_count_of_the_fullest_racks(racks, fraction):
    fabric = built(racks)
    chosen = ina_switches(fabric, fraction)
    assert abs(len(chosen) - fraction * len(racks)) <= 0.5001
    size = {tor: len(fabric.rack_hosts(tor)) for tor in fabric.tors}
    left = [size[tor] for tor in fabric.tors if tor not in chosen]
    assert min((size[tor] for tor in chosen), default=9) >= max(left, default=0)


@pytest.mark.parametrize(
    ("fraction", "chosen"),
    [(0.0, set()), (0.5, {"t1", "t2"}), (1 / 3, {"t1"}), (1.0, {"t0", "t1", "t2"})],
)
def test_fractions_of_three(fraction, chosen):
    assert ina_switches(built([1, 3, 2]), fraction) == chosen


@pytest.mark.parametrize(("count", "chosen"), [(0, set()), (1, {"t1"}), (2, {"t1", "t2"})])
def test_a_count_takes_the_fullest_racks(count, chosen):
    assert ina_switches(built([1, 3, 2]), count) == chosen


def test_more_than_there_are_is_refused():
    with pytest.raises(ValueError, match="4 INA switches wanted of 3"):
        ina_switches(built([1, 3, 2]), 4)
    assert len(ina_switches(built([1, 3, 2]), 4, tier="any")) == 4


@pytest.mark.parametrize("tier", ["tor", "any"])
@pytest.mark.parametrize("policy", ["fullest", "random"])
def test_a_larger_number_includes_a_smaller_one(policy, tier):
    fabric = fat_tree(4, 2, 1, 1, 1)
    chosen = [ina_switches(fabric, count, policy, tier, seed=3) for count in range(9)]
    assert [len(each) for each in chosen] == list(range(9))
    assert all(one < other for one, other in itertools.pairwise(chosen))


def test_any_fifth_of_the_switches_follows_from_the_seed():
    fabric = fat_tree(4, 2, 1, 1, 1)
    drawn = [ina_switches(fabric, 0.2, "random", "any", seed) for seed in range(30)]
    assert {len(each) for each in drawn} == {4}
    assert len(set(drawn)) > 25
    assert set().union(*drawn) == set(fabric.switches)
    assert drawn == [ina_switches(fabric, 0.2, "random", "any", seed) for seed in range(30)]
