"""NetReduce: which switch is the root, and whether the window fits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from testbed.plan import cost
from testbed.plan.checker import check
from testbed.protocols.netreduce.protocol import PROTOCOL
from testbed.systems import Assignment, registry
from testbed.topology.builders import fat_tree, leaf_spine

NETREDUCE = registry["netreduce"]
FABRIC = leaf_spine(2, 3, 4, 1e10, 1e10, 10**6)


def plan(workers, ina, fabric=FABRIC, **options):
    found = NETREDUCE.plan(
        Assignment(tuple(workers), options=NETREDUCE.settle(options)), fabric.with_ina(ina)
    )
    check(found)
    return found


def tree(*args, **options):
    (only,) = plan(*args, **options).trees
    assert only.protocol is PROTOCOL
    assert only.root_rank is None
    return only


def test_one_rack_is_summed_by_its_switch_whatever_is_above():
    assert tree(["h4", "h5", "h6"], ["t1"]).root == "t1"
    assert tree(["h4", "h5", "h6"], FABRIC.switches).root == "t1"


def test_a_spine_merges_what_leaves_sum():
    found = tree(["h0", "h1", "h4", "h5", "h8"], FABRIC.switches)
    assert found.root == "s0"
    assert set(found.children("s0")) == {"t0", "t1", "h8"}


def test_without_a_spine_a_leaf_merges():
    found = tree(["h0", "h1", "h4", "h5", "h6"], FABRIC.tors)
    assert found.root == "t1"
    assert set(found.children("t1")) == {"t0", "h4", "h5", "h6"}


def test_a_rack_without_ina_hangs_on_the_root():
    found = tree(["h0", "h1", "h4", "h5"], ["t0"])
    assert found.root == "t0"
    assert found.children("t0") == ("h0", "h1", "h4", "h5")


def test_in_a_fat_tree_the_nearest_switch_merges():
    fabric = fat_tree(4, 2, 1e10, 1e10, 10**6)
    assert tree(["h4", "h5", "h6", "h7"], fabric.switches, fabric).root == "a2"  # in their pod
    assert tree(["h0", "h1", "h12", "h13"], fabric.switches, fabric).root == "c0"


def test_pods_merge_before_a_core_does():
    fabric = fat_tree(4, 2, 1e10, 1e10, 10**6)
    found = tree(fabric.hosts, fabric.switches, fabric)
    assert found.root == "c0"
    assert set(found.children("c0")) == {"a0", "a2", "a4", "a6"}
    assert set(found.children("a0")) == {"t0", "t1"}
    leaves = [*fabric.tors, "c0"]  # without INA in the pods, two sums share a link
    paces = [
        cost.seconds_per_byte(plan(fabric.hosts, ina, fabric), fabric.with_ina(ina))
        for ina in (fabric.switches, leaves)
    ]
    assert paces[1] == pytest.approx(2 * paces[0])


def test_workers_whose_leaf_does_not_sum_meet_in_their_pod():
    fabric = fat_tree(4, 2, 1e10, 1e10, 10**6)
    found = tree(fabric.hosts, [each for each in fabric.switches if each != "t0"], fabric)
    assert set(found.children("a0")) == {"h0", "h1", "t1"}


def test_a_switch_that_is_on_nobodys_way_does_not_merge():
    assert plan(["h0", "h1", "h4"], ["t2"]).trees == ()


def test_without_ina_it_is_a_ring():
    ring = registry["ring"].plan(Assignment(FABRIC.hosts), FABRIC)
    assert plan(FABRIC.hosts, []).programs == ring.programs


def test_the_ring_of_connections_is_in_the_order_of_ranks():
    found = tree(["h5", "h0", "h4"], FABRIC.tors)
    assert [found.predecessor(host) for host in ("h5", "h0", "h4")] == ["h4", "h5", "h0"]


@pytest.mark.parametrize(
    ("options", "slots"), [({"message": 170}, 680), ({"window": 3, "message": 10}, 60)]
)
def test_a_window_larger_than_memory_is_refused(options, slots):
    hosts = FABRIC.hosts
    plan(hosts, FABRIC.tors, replace(FABRIC, slots=slots), **options)
    with pytest.raises(ValueError, match=rf"netreduce: .* raise fabric\.slots to {slots}"):
        plan(hosts, FABRIC.tors, replace(FABRIC, slots=slots - 1), **options)
    # Without INA it is a ring, which needs no switch memory.
    plan(hosts, [], replace(FABRIC, slots=slots - 1), **options)


@pytest.mark.parametrize("value", [0, -1, 1.5, "2", True])
@pytest.mark.parametrize("option", ["window", "message"])
def test_windows_and_messages_are_counted(option, value):
    with pytest.raises(ValueError, match=f"option {option}: .* a whole number"):
        NETREDUCE.settle({option: value})
