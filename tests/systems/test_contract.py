"""Every registered system, on odd shapes: the plan must sum each chunk exactly once."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from testbed.plan.checker import PlanError, check
from testbed.plan.program import Receive
from testbed.systems import Assignment, registry
from testbed.topology.builders import leaf_spine
from testbed.topology.fabric import Fabric
from testbed.workload.trace import load

RACKS = [(2, 1), (3, 3), (5, 2, 1), (4, 1, 4, 2), (16, 2), (1, 1, 1, 1, 1, 1, 1, 1, 9, 3)]
WORKERS = [2, 3, 5, 7, 16]
TRACE = load("resnet50")


def fabrics(racks: tuple[int, ...]) -> list[Fabric]:
    bare = leaf_spine(2, len(racks), racks, 1e10, 1e10, 100_000)
    tors = bare.tors
    return [bare.with_ina(chosen) for chosen in ((), tors[:1], tors[-1:], tors[::2], tors)]


SHAPES = [
    (racks, workers) for racks, workers in itertools.product(RACKS, WORKERS) if workers < sum(racks)
]


@pytest.mark.parametrize("system", registry.values(), ids=lambda system: system.name)
@pytest.mark.parametrize(("racks", "workers"), SHAPES, ids=str)
def test_every_plan_sums_exactly_once(system, racks, workers):
    least, most = system.servers
    for fabric in fabrics(racks):
        hosts = fabric.hosts
        for servers in {least, min(most, len(hosts) - workers)}:
            placement = Assignment(hosts[:workers], hosts[len(hosts) - servers :], trace=TRACE)
            check(system.plan(placement, fabric))
            check(system.plan(replace(placement, workers=hosts[:workers][::-1]), fabric))


def test_the_checker_notices_a_contribution_counted_twice():
    fabric = leaf_spine(1, 1, 4, 1e10, 1e10, 100_000)
    plan = registry["ring"].plan(Assignment(fabric.hosts), fabric)
    program = tuple(
        Receive(op.chunk, op.source, reduce=True) if isinstance(op, Receive) else op
        for op in plan.programs[0]
    )
    with pytest.raises(PlanError, match="rank 0 ends with"):
        check(replace(plan, programs=(program, *plan.programs[1:])))


def test_the_checker_notices_a_deadlock():
    fabric = leaf_spine(1, 1, 4, 1e10, 1e10, 100_000)
    plan = registry["ring"].plan(Assignment(fabric.hosts), fabric)
    with pytest.raises(PlanError, match="waits for ever"):
        check(replace(plan, programs=((), *plan.programs[1:])))


def test_the_checker_notices_a_worker_outside_the_tree():
    fabric = leaf_spine(1, 1, 4, 1e10, 1e10, 100_000).with_ina(["t0"])
    plan = registry["atp"].plan(Assignment(fabric.hosts[:3], fabric.hosts[3:]), fabric)
    tree = plan.trees[0]
    parent = {child: up for child, up in tree.parent.items() if child != "h1"}
    ranks = {host: rank for host, rank in tree.rank_of.items() if host != "h1"}
    without = replace(tree, rank_of=ranks, parent=parent)
    with pytest.raises(PlanError, match="rank 1 uses tree 0 without being on it"):
        check(replace(plan, trees=(without,)))
