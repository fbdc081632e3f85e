"""What a plan says in short must be what its programs say at length."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction

import pytest

from testbed.plan import chain
from testbed.plan.program import LazyPrograms, Plan, Send, TreeOperation
from testbed.systems import Assignment, registry
from testbed.topology.builders import leaf_spine

RACKS = [(4,), (2, 1), (3, 3), (5, 2, 1), (4, 4, 4, 4), (1, 1, 1, 3)]


def at_length(plan: Plan) -> dict[object, Fraction]:
    """What part of a bucket takes each hop, by the programs."""
    total: defaultdict[object, Fraction] = defaultdict(Fraction)
    for step in chain.steps(plan):
        for what in step:
            tree = isinstance(what, TreeOperation)
            hop = (type(what), what.tree) if tree else (what.source, what.to)
            total[hop] += plan.share(what.chunk)
    return dict(total)


def in_short(plan: Plan) -> dict[object, Fraction]:
    total: defaultdict[object, Fraction] = defaultdict(Fraction)
    for stretch in plan.stretches:
        for ring in stretch:
            for hop in ring.hops:
                key = hop if isinstance(hop, tuple) else (type(hop), hop.tree)
                total[key] += ring.rounds * ring.share
    return dict(total)


@pytest.mark.parametrize("name", ["ring", "rina", "hierarchical-ring", "netreduce"])
@pytest.mark.parametrize("racks", RACKS, ids=str)
def test_stretches_are_the_programs_in_short(name, racks):
    bare = leaf_spine(2, len(racks), racks, 1e10, 1e10, 100_000)
    some = False
    for ina in ((), bare.tors[:1], bare.tors[::2], bare.tors):
        fabric = bare.with_ina(ina)
        plan = registry[name].plan(Assignment(fabric.hosts), fabric)
        if plan.stretches:
            assert in_short(plan) == at_length(plan)
            rounds = sum(max(ring.rounds for ring in stretch) for stretch in plan.stretches)
            uneven = name == "hierarchical-ring" and len(set(racks)) > 1
            assert rounds >= chain.length(plan) if uneven else rounds == chain.length(plan)
            some = True
    assert some


def test_programs_are_written_when_they_are_read_and_once():
    written = []

    def write() -> list[list[Send]]:
        written.append(True)
        return [[Send(0, 1)], []]

    programs = LazyPrograms(2, write)
    assert len(programs) == 2 and not written
    assert programs[0] == (Send(0, 1),) and programs[-1] == () and programs[:1] == programs[0:1]
    assert programs == ((Send(0, 1),), ()) and ((Send(0, 1),), ()) == programs
    assert written == [True]


@pytest.mark.parametrize("name", ["ring", "rina", "hierarchical-ring"])
def test_the_chain_of_a_large_plan_is_that_of_its_stretches(name):
    fabric = leaf_spine(1, 18, 4, 1e10, 1e10, 100_000)
    plan = registry[name].plan(Assignment(fabric.hosts), fabric.with_ina(fabric.tors))
    assert plan.workers > chain.WRITTEN_OUT
    assert chain.length(plan) == len(chain.steps(plan))


def test_a_ring_of_thousands_is_planned_without_its_operations():
    fabric = leaf_spine(1, 64, 32, 1e10, 1e10, 100_000)
    plan = registry["ring"].plan(Assignment(fabric.hosts), fabric)
    ((both,),) = plan.stretches
    assert both.rounds == 2 * 2047 and both.hops[-1] == (2047, 0)
