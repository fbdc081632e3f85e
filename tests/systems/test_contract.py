"""Every registered system, on odd shapes: the plan must sum each chunk exactly once."""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import replace
from fractions import Fraction

import pytest
from shapes import TRACE, WORKERS, assignments, bare_fabrics, deployments, planned

from testbed.plan import chain
from testbed.plan import cost as model
from testbed.plan.checker import PlanError, check
from testbed.plan.program import Receive, TreeOperation
from testbed.plan.stages import Stages, stretches
from testbed.systems import Assignment, registry
from testbed.topology.builders import fat_tree, leaf_spine

every_system = pytest.mark.parametrize("system", registry.values(), ids=lambda system: system.name)
SHAPES = [
    (bare, workers)
    for bare in bare_fabrics()
    for workers in WORKERS
    if workers < len(bare.hosts)  # one is left to be a server
]


@every_system
@pytest.mark.parametrize(
    ("bare", "workers"), SHAPES, ids=lambda value: getattr(value, "name", str(value))
)
def test_every_plan_sums_exactly_once(system, bare, workers):
    proven = []
    for fabric in deployments(bare):
        for job in assignments(system, fabric, workers):
            planned(system, job, fabric, proven)


@every_system
def test_a_worker_alone_in_an_ina_rack_is_summed_elsewhere(system):
    fabric = leaf_spine(2, 3, (4, 2, 2), 1e10, 1e10, 100_000).with_ina(["t0", "t1"])
    hosts = fabric.hosts
    servers = hosts[6 : 6 + system.servers[0]]
    plan = planned(system, Assignment(hosts[:5], servers, trace=TRACE), fabric, [])
    assert all("t1" not in tree.switches or "h4" not in tree.parent for tree in plan.trees)


@every_system
def test_two_jobs_keep_to_their_own_hosts(system):
    fabric = fat_tree(4, (3, 2, 4, 1, 3, 2, 2, 4), 1e10, 1e10, 100_000)
    fabric = fabric.with_ina(fabric.tors[::2])
    first, second = fabric.hosts[::2], fabric.hosts[1::2]  # both have workers in shared racks
    least = system.servers[0]
    for hosts in (first, second):
        workers, servers = hosts[: len(hosts) - least], hosts[len(hosts) - least :]
        plan = planned(system, Assignment(workers, servers, trace=TRACE), fabric, [])
        endpoints = {end for tree in plan.trees for link in tree.parent.items() for end in link}
        assert endpoints <= set(hosts) | fabric.ina


@every_system
def test_every_plan_has_a_closed_form(system):
    fabric = leaf_spine(2, 3, (4, 2, 2), 1e10, 1e10, 100_000).with_ina(["t0"])
    servers = fabric.hosts[7 : 7 + system.servers[0]]
    plan = system.plan(Assignment(fabric.hosts[:7], servers, trace=TRACE), fabric)
    assert 0.9 < model.seconds_per_byte(plan, fabric) * 1e10 / 8 < 10


def at_length(plan):
    """What part of a bucket takes each hop, by the operations."""
    total = defaultdict(Fraction)
    for step in chain.steps(plan):
        for what in step:
            tree = isinstance(what, TreeOperation)
            hop = (type(what), what.tree) if tree else (what.source, what.to)
            total[hop] += plan.share(what.chunk)
    return dict(total)


def in_rounds(plan):
    """The same by the rounds of its stages."""
    total = defaultdict(Fraction)
    for ring in itertools.chain.from_iterable(stretches(plan)):
        for hop in ring.hops:
            key = hop if isinstance(hop, tuple) else (type(hop), hop.tree)
            total[key] += ring.rounds * ring.share
    return dict(total)


@every_system
@pytest.mark.parametrize("racks", [(4,), (2, 1), (3, 3), (5, 2, 1), (4, 4, 4, 4), (1, 1, 1, 3)])
def test_rounds_are_the_operations_in_short(system, racks):
    bare = leaf_spine(2, len(racks), racks, 1e10, 1e10, 100_000)
    for ina in ((), bare.tors[:1], bare.tors[::2], bare.tors):
        fabric = bare.with_ina(ina)
        least = system.servers[0]
        workers = len(fabric.hosts) - least
        job = Assignment(fabric.hosts[:workers], fabric.hosts[workers:], trace=TRACE)
        plan = system.plan(job, fabric)
        if isinstance(plan.programs, Stages):
            assert in_rounds(plan) == at_length(plan)
            rounds = sum(max(ring.rounds for ring in stage) for stage in plan.programs.stages)
            assert rounds >= chain.length(plan)
            assert rounds == chain.length(plan) or not plan.programs.in_step


def test_systems_are_told_apart():
    for look in ("name", "title", "colour", "marker"):
        looks = [getattr(system, look) for system in registry.values()]
        assert len(set(looks)) == len(looks), look


@every_system
def test_what_is_published_and_what_is_our_reading_are_both_said(system):
    assert system.citation
    assert system.published
    assert system.reading
    assert len(set(system.published + system.reading)) == len(system.published + system.reading)


@every_system
def test_an_unknown_option_is_refused(system):
    with pytest.raises(ValueError, match=f"{system.name} knows no option speed"):
        system.settle({"speed": 1})


@every_system
def test_every_option_has_a_default_that_will_do_and_refuses_nonsense(system):
    for name, option in system.options.items():
        assert option.default is None or option.accepts(option.default)
        with pytest.raises(ValueError, match=f"option {name}: found .*, wanted "):
            system.settle({name: object()})


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
