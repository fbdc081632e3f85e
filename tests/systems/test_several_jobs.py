"""Jobs that share racks have roots and links of their own."""

from __future__ import annotations

from collections import Counter

import pytest

from testbed.backends.flow.scenario import Assumptions, Job
from testbed.backends.flow.simulate import simulate
from testbed.plan.cost import ClosedForm, Timing, link_loads
from testbed.plan.units import Unit
from testbed.systems import Assignment, registry
from testbed.topology.builders import fat_tree, leaf_spine
from testbed.topology.placement import place

RACKS, SPINES, JOBS = 4, 2, 4
FABRIC = leaf_spine(SPINES, RACKS, 8, 1e10, 1e10, 10**6)
ONE_ROOT = ("flare", "netreduce", "omnireduce", "switchml")


def roots(system, workers, ina):
    """How many jobs have each root; all have as many workers, spread over the racks."""
    taken, found = set(), Counter()
    for _ in range(JOBS):
        hosts = place(FABRIC, "spread", workers, taken, 1)
        taken |= set(hosts)
        ranks = sorted(hosts, key=FABRIC.hosts.index)
        (tree,) = registry[system].plan(Assignment(tuple(ranks)), FABRIC.with_ina(ina)).trees
        found[tree.root] += 1
    return found


@pytest.mark.parametrize("system", ONE_ROOT)
@pytest.mark.parametrize("workers", [RACKS, 2 * RACKS])
def test_each_rack_is_the_root_of_one_job(system, workers):
    assert roots(system, workers, FABRIC.tors) == dict.fromkeys(FABRIC.tors, 1)


@pytest.mark.parametrize("system", ["flare", "netreduce", "switchml"])
def test_spines_take_turns(system):
    found = roots(system, 2 * RACKS, FABRIC.switches)
    assert found == dict.fromkeys(("s0", "s1"), JOBS // SPINES)


@pytest.mark.parametrize("system", ONE_ROOT)
def test_the_fullest_rack_is_still_the_root(system):
    workers = ("h1", "h8", "h9", "h16")  # the first one is the second host of its rack
    (tree,) = registry[system].plan(Assignment(workers), FABRIC.with_ina(FABRIC.tors)).trees
    assert tree.root == "t1"


ALL_AT_FULL_SPEED = ("a2tp", "atp", "esa", "flare", "netreduce", "rina", "switchml")


@pytest.mark.parametrize("system", ALL_AT_FULL_SPEED)
def test_three_jobs_fit_on_two_spines(system):
    """Each pair of racks has room for four streams, and each job has one in either direction. If
    all took one spine, they would take 1.5 times as long."""
    fabric = leaf_spine(2, 2, 8, 1e10, 2e10, 10**6).with_ina(("t0", "t1"))
    units = tuple(Unit(at, 10**6, 0.0) for at in range(8))
    plans = []
    for job, server in enumerate(("h6", "h14", "h7")):
        hosts = tuple(f"h{rack + 2 * job + at}" for rack in (0, 8) for at in range(2))
        known = registry[system]
        asked = Assignment(hosts, (server,)[: known.servers[1]])
        plans.append(known.plan(asked, fabric))
    jobs = [Job(plan, units, 0.0, ((1.0,),) * 4) for plan in plans]
    alone = ClosedForm(plans[0], fabric).iteration(Timing([(0.0, 4e6)] * 8)).iteration_s
    found = simulate(fabric, jobs, Assumptions("even"))
    for job in range(3):
        assert found.jct_s(job) == pytest.approx(alone, rel=0.02)


def test_trees_of_several_servers_take_turns():
    """Four trees between the same two racks use both spines in either direction."""
    fabric = leaf_spine(2, 2, 8, 1e10, 1e10, 10**6).with_ina(("t0", "t1"))
    workers = ("h0", "h1", "h8", "h9")
    trees = registry["atp"].plan(Assignment(workers, ("h4", "h5", "h6", "h7")), fabric).trees
    spines = fabric.next_hops("t1", "t0")
    assert Counter(tree.hop("t1", spines, False) for tree in trees) == {"s0": 2, "s1": 2}


def test_trees_take_turns_where_no_worker_is_beside_the_server():
    fabric = fat_tree(4, 2, 1e10, 1e10, 10**6)
    fabric = fabric.with_ina(fabric.tors)
    asked = Assignment(fabric.hosts[:12], fabric.hosts[12:])
    for tor in fabric.tors[:6]:
        taken = Counter(
            tree.hop(tor, fabric.next_hops(tor, tree.parent[tor]), False)
            for tree in registry["atp"].plan(asked, fabric).trees
        )
        assert taken == dict.fromkeys(fabric.next_hops(tor, fabric.tors[-1]), 2)


@pytest.mark.parametrize("system", ALL_AT_FULL_SPEED)
def test_four_jobs_fit_on_four_spines_wherever_their_servers_are(system):
    """Each pair of racks has room for one stream on each spine, in either direction. A job's only
    stream that has a choice must not depend on how many workers are beside the root."""
    fabric = leaf_spine(4, 2, 10, 1e10, 1e10, 10**6).with_ina(("t0", "t1"))
    known, links = registry[system], []
    for job, server in enumerate(("h8", "h9", "h18", "h19")):
        hosts = tuple(f"h{rack + 2 * job + at}" for rack in (0, 10) for at in range(2))
        asked = Assignment(hosts, (server,)[: known.servers[1]])
        loads = link_loads(known.plan(asked, fabric), fabric)
        links.append({link for link in loads if any(end.startswith("s") for end in link)})
    assert all(links)
    assert sum(map(len, links)) == len(set().union(*links))
