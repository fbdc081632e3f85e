"""PANAMA: which trees a job has, how much each carries, and what a single tree per job costs."""

from __future__ import annotations

import pytest

from testbed.backends.flow.scenario import Assumptions, Job
from testbed.backends.flow.simulate import simulate
from testbed.plan import cost as model
from testbed.plan.units import Unit
from testbed.systems import Assignment, registry
from testbed.systems.racks import dealt
from testbed.topology.builders import fat_tree, leaf_spine
from testbed.topology.framing import framing

PANAMA = registry["panama"]
FABRIC = leaf_spine(4, 4, 4, 1e10, 1e10, 10**6)


def plan(workers, ina, fabric=FABRIC, **options):
    job = Assignment(tuple(workers), options=PANAMA.settle(options))
    return PANAMA.plan(job, fabric.with_ina(ina))


def roots(*args, **options):
    return {tree.root for tree in plan(*args, **options).trees}


ACROSS = ["h0", "h4", "h8", "h12"]


def test_there_is_a_tree_for_each_spine_and_each_sums_an_equal_part():
    found = plan(ACROSS, FABRIC.switches)
    assert {tree.root for tree in found.trees} == {"s0", "s1", "s2", "s3"}
    assert found.cuts(4000, 10) == (0, 1000, 2000, 3000, 4000)


def test_one_rack_has_one_tree_and_no_more():
    assert roots(["h0", "h1"], FABRIC.switches) == {"t0"}


def test_without_spines_racks_of_several_workers_take_turns():
    assert roots(["h0", "h1", "h4", "h5", "h8"], FABRIC.tors) == {"t0", "t1"}


def test_in_a_fat_tree_the_roots_are_the_nearest_switches_to_all():
    fabric = fat_tree(4, 2, 1e10, 1e10, 10**6)
    within = [host for host in fabric.hosts if fabric.tor_of(host) in fabric.tors[:2]]
    assert len(roots(within, fabric.switches, fabric)) == 2  # the pod's own
    assert len(roots([fabric.hosts[0], fabric.hosts[-1]], fabric.switches, fabric)) == 4


def test_without_a_root_it_is_a_ring():
    assert not plan(ACROSS, []).trees


def test_jobs_with_fewer_trees_take_roots_in_turn():
    jobs = [[f"h{4 * rack + place}" for rack in range(4)] for place in range(4)]
    singles = [plan(job, FABRIC.switches, trees=1).trees[0].root for job in jobs]
    assert sorted(singles) == ["s0", "s1", "s2", "s3"]
    pairs = [frozenset(roots(job, FABRIC.switches, trees=2)) for job in jobs]
    assert all(len(each) == 2 for each in pairs)


@pytest.mark.parametrize(("trees", "times"), [(4, 1.0), (1, 2.0)])
def test_several_trees_spread_jobs_over_links(trees, times):
    """Two jobs whose single trees have the same root, because their first racks are not shared,
    share its links."""
    fabric = FABRIC.with_ina(FABRIC.switches)
    pair = [["h0", "h4", "h8"], ["h12", "h5", "h9"]]
    assert len({plan(job, fabric.switches, trees=1).trees[0].root for job in pair}) == 1
    plans = [plan(job, fabric.switches, trees=trees) for job in pair]
    units = tuple(Unit(at, 10**6, 0.0) for at in range(8))
    told = [Job(each, units, 0.0, ((1.0,),) * 3) for each in plans]
    alone = model.ClosedForm(plans[0], fabric).iteration(model.Timing([(0.0, 4e6)] * 8))
    found = simulate(fabric, told, Assumptions("even"))
    assert found.jct_s(0) == pytest.approx(times * alone.iteration_s, rel=0.02)


@pytest.mark.parametrize(("racks", "spines"), [(4, 2), (5, 3), (6, 2), (8, 2), (8, 4)])
def test_trees_between_tors_share_the_spines_evenly(racks, spines):
    fabric = leaf_spine(spines, racks, 3, 1e10, 1e10, 10**6).with_ina(
        f"t{each}" for each in range(racks)
    )
    found = PANAMA.plan(Assignment(dealt(fabric.hosts, fabric)[: 2 * racks]), fabric)
    assert len(found.trees) == racks
    busiest = model.seconds_per_byte(found, fabric) * 1e10 / 8 * framing(fabric).ina_efficiency
    assert busiest == pytest.approx(1, rel=0.01)  # a host's link
