"""Odd shapes on which a system must plan: fabrics, and the places of workers and servers."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import chain

from testbed.plan.checker import check
from testbed.plan.program import Plan
from testbed.systems import Assignment, System
from testbed.topology import paths
from testbed.topology.builders import fat_tree, leaf_spine
from testbed.topology.fabric import Fabric
from testbed.workload.catalogue import load

RACKS = [(2, 1), (3, 3), (5, 2, 1), (4, 1, 4, 2), (16, 2), (1, 1, 1, 1, 1, 1, 1, 1, 9, 3)]
EDGES = [2, (1, 2, 3, 4, 1, 0, 5, 3)]
WORKERS = [1, 2, 3, 5, 7, 16]
TRACE = load("resnet50")


def bare_fabrics() -> list[Fabric]:
    flat = [leaf_spine(2, len(racks), racks, 1e10, 1e10, 100_000) for racks in RACKS]
    return flat + [fat_tree(4, edges, 1e10, 1e10, 100_000) for edges in EDGES]


def deployments(bare: Fabric) -> list[Fabric]:
    """INA at no, some and all ToRs, and at some or all switches above them."""
    tors, above = bare.tors, tuple(switch for switch in bare.switches if switch not in bare.tors)
    chosen = ((), tors[:1], tors[-1:], tors[::2], tors, above, (*tors[1::2], *above[::2]))
    return [bare.with_ina(switches) for switches in dict.fromkeys(chosen)]  # few racks: some twice


def assignments(system: System, fabric: Fabric, workers: int) -> Iterator[Assignment]:
    """Workers in order and at random, with the fewest and the most servers."""
    least, most = system.servers
    hosts = fabric.hosts
    shuffled = random.Random(f"{fabric.name}/{workers}").sample(hosts, len(hosts))
    for order in (hosts, tuple(shuffled)):
        for servers in sorted({least, min(most, len(hosts) - workers)}):
            yield Assignment(
                order[:workers],
                order[len(order) - servers :],
                options=system.settle(system.fallback),
                trace=TRACE,
            )


def planned(system: System, job: Assignment, fabric: Fabric, proven: list[Plan]) -> Plan:
    """The plan of ``system``, after it has passed all checks.

    Plans in ``proven`` are not checked again: without trees a plan may be the same on many fabrics.
    """
    plan = system.plan(job, fabric)
    for tree in plan.trees:
        assert set(tree.switches) <= fabric.ina
        # A switch with only one child would waste slots.
        if len(tree.rank_of) > 1:
            assert all(len(tree.children(switch)) > 1 for switch in tree.switches)
    paths.check(fabric, plan.routes)
    summing = (tree.switches for tree in plan.trees)
    assert set(chain.from_iterable(plan.routes)) <= {*plan.hosts, *chain.from_iterable(summing)}
    if plan not in proven:
        proven.append(plan)
        check(plan)
        assert plan.system == system.name
        assert plan.hosts[: plan.workers] == job.workers
        assert set(plan.hosts[plan.workers :]) <= {*job.servers, *job.workers}
    return plan
