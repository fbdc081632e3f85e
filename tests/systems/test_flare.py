"""Flare: its tree has every switch on the way that aggregates, at any tier."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tiny import data

import testbed
from testbed.located import Invalid
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


def run(folder, **changes):
    told = {
        "jobs__0__system": "flare", "fabric__ina": "all", "fabric__spines": 1,
        "jobs__0__workload": "synthetic/1MB", "jobs__0__bucket": "25MB", "jobs__0__iterations": 1,
        "jobs__0__warmup": 0, "jobs__0__first_bucket": "25MB", "fabric__queue": "32KB",
        "backend": "packet", "emulation__carried_values": "all",
    }  # fmt: skip
    folder.mkdir(exist_ok=True)
    told = {name: value for name, value in {**told, **changes}.items() if value is not None}
    return testbed.run(data(folder, **told), folder / "results").results.iloc[0]


def sums_are_exact_and_as_fast_as_expected(row, rel):
    assert row.error == ""
    assert row.verified
    assert row.jct_s == pytest.approx(row.expected_jct_s, rel=rel)


@pytest.mark.parametrize(("density", "rel"), [(0.05, 0.1), (0.01, 0.2)])
def test_the_closed_form_holds_for_pairs(tmp_path, density, rel):
    """At the end, only the longest lanes continue."""
    sums_are_exact_and_as_fast_as_expected(run(tmp_path, jobs__0__density=density), rel)
    told = {"backend": "simulate", "emulation__carried_values": None, "jobs__0__density": density}
    row = run(tmp_path / "flow", **told)
    assert row.jct_s == pytest.approx(row.expected_jct_s, rel=0.05)
    assert row.notes.startswith(f"density {density:g}: ")


def test_longer_queues_do_not_make_pairs_slower(tmp_path):
    """The default window once grew with the queue: more slots, with shorter shares of the pairs."""
    short, long = (
        run(tmp_path / queue, fabric__queue=queue, jobs__0__density=0.05).jct_s
        for queue in ("128KB", "4MB")
    )
    assert long == pytest.approx(short, rel=0.01)


@pytest.mark.parametrize(
    ("tier", "workers"),
    [(["t0", "t1"], 4), (["a0", "a2", "a4", "a6"], 16), (["c1"], 16), (["t0", "a3", "c2"], 16)],
)
@pytest.mark.parametrize("density", [1, 0.01])
def test_switches_of_any_tier_of_a_fat_tree_sum(tmp_path, tier, workers, density):
    fabric = {"kind": "fat-tree", "k": 4, "hosts_per_edge": 2, "host_rate": "10Gbit"}
    fabric |= {"ina": tier, "ina_tier": "any", "queue": "256KB"}
    told = {"fabric": fabric, "fabric__ina": tier, "fabric__spines": None, "fabric__queue": "256KB"}
    told |= {"jobs__0__workers": workers, "jobs__0__workload": "synthetic/512KB"}
    row = run(tmp_path, **told, jobs__0__density=density)
    sums_are_exact_and_as_fast_as_expected(row, 0.1)


@pytest.mark.parametrize("density", [1, 0.9])
def test_where_pairs_would_be_longer_it_is_dense(tmp_path, density):
    row = run(tmp_path / "ours", jobs__0__density=density)
    dense = run(tmp_path / "dense", jobs__0__system="switchml")
    assert row.verified
    assert row.jct_s <= 1.05 * dense.jct_s


def test_losses_change_no_sum(tmp_path):
    row = run(tmp_path, jobs__0__density=0.02, emulation__loss=0.01)
    assert row.error == ""
    assert row.verified
    assert row.retransmitted > 0


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"emulation__carried_values": "few"}, "density: found 0.1 with packets that carry few"),
        ({"jobs__0__density": "recorded", "jobs__0__gradients": "real",
          "jobs__0__workload": "vgg16"}, "found recorded with the system flare, which skips"),
    ],
)  # fmt: skip
def test_a_density_that_packets_cannot_show_is_refused(tmp_path, changes, told):
    with pytest.raises(Invalid, match=told):
        run(tmp_path, **{"jobs__0__density": 0.1, **changes})
