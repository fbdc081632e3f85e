"""Programmable switches go where they save the most."""

from __future__ import annotations

import pytest
from simulated import job

from testbed.placement.search import place
from testbed.systems import Assignment, registry
from testbed.topology.builders import fat_tree, leaf_spine

SIZES = [16_000_000]


def jobs(*asked, options=None, **others):
    """A function from a fabric to its jobs. ``asked``: system, workers and servers of each job."""

    def on(fabric):
        return [
            job(
                registry[name].plan(
                    Assignment(tuple(workers), tuple(servers), options or {}), fabric
                ),
                SIZES,
                **others,
            )
            for name, workers, servers in asked
        ]

    return on


UNEVEN = leaf_spine(2, 4, (2, 5, 4, 1), 1e10, 1e10, 10**6)
ATP = jobs(("atp", UNEVEN.hosts[:-1], UNEVEN.hosts[-1:]))


def test_the_rack_that_saves_most_streams_comes_first():
    # Eleven streams meet at the server; a rack with INA turns those of its workers into one.
    assert place(UNEVEN, 1, ATP, UNEVEN.tors[:3]).switches == ("t1",)
    both = place(UNEVEN, 2, ATP, UNEVEN.tors[:3])
    assert both.switches == ("t1", "t2")
    alone = place(UNEVEN, 0, ATP)
    assert both.mean_s / alone.mean_s == pytest.approx(4 / 11, rel=0.01)
    assert alone.switches == () and alone.is_exact and alone.simulated == 1


def test_the_servers_own_switch_sums_what_is_left():
    assert place(UNEVEN, 1, ATP).switches == ("t3",)


@pytest.mark.parametrize("budget", [1, 2, 3])
def test_choosing_one_after_another_finds_what_comparing_all_finds(budget):
    exact = place(UNEVEN, budget, ATP)
    greedy = place(UNEVEN, budget, ATP, most_exact=0)
    assert exact.is_exact and exact.gap == 0 and exact.simulated >= 5
    assert not greedy.is_exact and greedy.mean_s == pytest.approx(exact.mean_s)
    assert greedy.bound_s <= exact.mean_s and greedy.gap >= 0


def test_with_two_jobs_the_mean_counts():
    fabric = leaf_spine(2, 4, 4, 1e10, 1e10, 10**6)
    hosts = fabric.hosts
    both = jobs(("atp", (*hosts[:4], *hosts[4:6]), hosts[6:7]), ("atp", hosts[8:11], hosts[12:13]))
    # For the first job four streams become one, for the second only three.
    assert place(fabric, 1, both, ["t0", "t2"]).switches == ("t0",)
    assert place(fabric, 2, both, ["t0", "t2"]).switches == ("t0", "t2")


def test_no_more_than_are_of_use():
    ring = jobs(("ring", UNEVEN.hosts, ()))
    found = place(UNEVEN, 3, ring)
    assert found.switches == () and found.simulated == 15


def test_choices_with_which_a_job_cannot_run_are_left_out():
    # SwitchML whose root would be a server, but has none, needs all ToRs of its workers.
    switchml = jobs(("switchml", UNEVEN.hosts[:11], ()), options={"root": "server"})
    assert place(UNEVEN, 3, switchml).switches == ("t0", "t1", "t2")
    with pytest.raises(ValueError, match="cannot run with any 2 of 3 switches; allow more"):
        place(UNEVEN, 2, switchml)
    with pytest.raises(ValueError, match="cannot run without INA; allow more"):
        place(UNEVEN, 0, switchml)
    with pytest.raises(ValueError, match="budget: found -1"):
        place(UNEVEN, -1, switchml)


def test_equal_racks_are_tried_once_on_a_large_fabric():
    fabric = fat_tree(6, 2, 1e10, 1e10, 10**6)
    # A shorter chain saves latency.
    by_agents = {"reading": "agent", "groups": "always"}
    asked = jobs(("rina", fabric.hosts[:18], ()), options=by_agents, step_s=1e-3)
    found = place(fabric, 3, asked)
    # Three of nine racks in three pods: as many choices as there are partitions of three.
    assert found.is_exact and found.simulated == 1 + 1 + 2 + 3
    assert len(found.switches) == 3 and set(found.switches) < set(fabric.tors[:9])
