"""Every registered system passes the contract; and tests of the contract itself."""

from __future__ import annotations

from dataclasses import replace

import pytest
from contract import *  # noqa: F403

from testbed.plan.checker import PlanError, check
from testbed.plan.program import Receive
from testbed.systems import Assignment, registry
from testbed.topology.builders import leaf_spine


@pytest.fixture(params=registry.values(), ids=lambda system: system.name)
def system(request):
    return request.param


def test_systems_are_told_apart():
    for look in ("name", "title", "colour", "marker"):
        looks = [getattr(system, look) for system in registry.values()]
        assert len(set(looks)) == len(looks), look


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
