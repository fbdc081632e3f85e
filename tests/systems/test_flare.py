"""Flare: its tree has every switch on the way that aggregates, at any tier."""

from __future__ import annotations

from dataclasses import replace

import pytest

from testbed.plan import cost
from testbed.plan.checker import check
from testbed.systems import Assignment, registry
from testbed.systems.racks import two_levels
from testbed.topology.builders import fat_tree, leaf_spine

FLARE = registry["flare"]
FAT_TREE = fat_tree(4, 2, 1e10, 1e10, 10**6)
LEAVES = leaf_spine(2, 4, 4, 1e10, 1e10, 10**6)
EIGHT = tuple(f"h{2 * number}" for number in range(8))


def plan(workers, fabric, ina):
    made = FLARE.plan(Assignment(tuple(workers)), fabric.with_ina(ina))
    check(made)
    return made


def tree(*args):
    (only,) = plan(*args).trees
    return only


def test_pods_are_summed_before_the_core():
    found = tree(FAT_TREE.hosts, FAT_TREE, FAT_TREE.switches)
    assert found.root == "c0"
    assert len(found.children("c0")) == 4  # one switch in each pod
    assert {found.depth(host) for host in FAT_TREE.hosts} == {3}


def test_a_switch_with_one_child_is_left_out():
    found = tree(EIGHT, FAT_TREE, FAT_TREE.switches)  # one worker in each rack
    assert not set(found.switches) & set(FAT_TREE.tors)
    assert {found.depth(host) for host in EIGHT} == {2}


def test_it_takes_the_switches_that_there_are():
    found = tree(FAT_TREE.hosts, FAT_TREE, ["t0", "t3", "c1"])
    assert found.root == "c1"
    assert set(found.children("c1")) == {"t0", "t3", *FAT_TREE.hosts} - {"h0", "h1", "h6", "h7"}


def test_workers_in_one_pod_do_not_leave_it():
    found = tree(["h0", "h1", "h2", "h3"], FAT_TREE, FAT_TREE.switches)
    assert found.root == "t0" or found.root.startswith("a")
    assert len(found.switches) <= 3


def test_each_link_carries_the_gradient_once():
    """A tree of two levels sends every rack's sum to the root's rack."""
    fabric = FAT_TREE.with_ina(FAT_TREE.switches)
    loads = cost.link_loads(plan(EIGHT, FAT_TREE, FAT_TREE.switches), fabric)
    assert max(loads.values()) == pytest.approx(min(loads.values()))
    three = plan(EIGHT, FAT_TREE, FAT_TREE.switches)
    root = three.trees[0].root
    two = replace(three, trees=(two_levels(EIGHT, fabric, root, three.trees[0].protocol),))
    assert max(cost.link_loads(two, fabric).values()) > 1.5 * max(loads.values())


def test_a_spine_sums_what_four_leaves_send():
    assert tree(LEAVES.hosts, LEAVES, LEAVES.switches).root == "s0"
    assert tree(LEAVES.hosts, LEAVES, LEAVES.tors).root == "t0"
    assert tree(["h4", "h5"], LEAVES, LEAVES.switches).root == "t1"


def test_without_switches_it_is_a_ring():
    assert not plan(EIGHT, FAT_TREE, []).trees
