"""Jobs that share racks do not all have the same root."""

from __future__ import annotations

from collections import Counter

import pytest

from testbed.systems import Assignment, registry
from testbed.topology.builders import leaf_spine
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
