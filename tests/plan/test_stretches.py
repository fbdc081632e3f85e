"""Programs made of stages: their operations and rounds."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from testbed.plan import chain
from testbed.plan.program import Receive, Send, SwitchAllReduce
from testbed.plan.stages import Ring, Rounds, Stages, Turn, stretches
from testbed.plan.trees import Tree
from testbed.protocols.switchml.protocol import PROTOCOL as SWITCHML
from testbed.systems import Assignment, registry
from testbed.topology.builders import leaf_spine

THREE = ((0,), (1,), (2,))

BY_AGENTS = {"reading": "agent", "groups": "always"}


def test_a_ring_scatters_and_gathers():
    ring = Ring(((0, 1), (1, 2), (2, 0)), THREE, Turn.BOTH)
    moves = list(ring.moves(range(3)))
    assert moves[:3] == [(0, 0, True), (1, 1, True), (2, 2, True)]
    assert moves[3:6] == [(2, 0, True), (0, 1, True), (1, 2, True)]
    assert moves[6:9] == [(1, 0, False), (2, 1, False), (0, 2, False)]
    assert len(moves) == 3 * ring.rounds == 12
    assert list(ring.moves([1])) == [move for move in moves if move[0] == 1]
    assert replace(ring, turn=Turn.GATHER).rounds == replace(ring, turn=Turn.SCATTER).rounds == 2


def test_operations_follow_from_stages():
    tree = Tree("t0", {"h0": 0, "h1": 1}, {"h0": "t0", "h1": "t0"}, SWITCHML)
    around = Ring(((0, 1), (1, 0)), ((0, 2), (1, 3)), Turn.SCATTER)
    local = Ring((SwitchAllReduce(0, 0),), ((1,),), Turn.ONCE)
    alone = Ring(((0, 0),), ((0,),), Turn.BOTH)
    programs = Stages(2, [(around,), (alone,), (local,)], [tree])
    assert programs.stages == ((around,), (local,))  # a ring of one has no hops
    assert programs.transfers == 5
    assert not programs.in_step
    assert programs[0] == (
        *(Send(0, 1), Send(2, 1), Receive(1, 1, True), Receive(3, 1, True)),
        SwitchAllReduce(1, 0),
    )
    assert programs.written([1])[0] == (Receive(1, 1, True), SwitchAllReduce(1, 0))
    assert len(programs) == 2 and programs[:1] == programs[0:1] and programs == tuple(programs)


def test_positions_keep_step_where_all_are_alike():
    bare = leaf_spine(2, 3, (3, 3, 2), 1e10, 1e10, 100_000)

    def programs(name, ina=(), workers=8):
        fabric = bare.with_ina(ina)
        job = Assignment(fabric.hosts[:workers], options=BY_AGENTS if name == "rina" else {})
        return registry[name].plan(job, fabric).programs

    assert programs("ring").in_step
    assert programs("rina").in_step and programs("rina", bare.tors).in_step
    assert not programs("rina", ["t0"]).in_step  # an agent's hop and a tree's differ
    assert not programs("hierarchical-ring").in_step and programs("hierarchical-ring").overlap
    assert programs("hierarchical-ring", workers=3).in_step  # a single rack


def test_a_segment_is_what_its_chunks_are():
    ring = Ring(((0, 1), (1, 0)), ((0, 1), (2,)), Turn.BOTH)
    plan = replace(
        registry["ring"].plan(Assignment(("h0", "h1")), leaf_spine(1, 1, 2, 1, 1, 1)),
        chunks=3,
        programs=Stages(2, [(ring,)]),
        shares=(Fraction(1, 4), Fraction(1, 4), Fraction(1, 2)),
    )
    assert stretches(plan) == ((Rounds(2, Fraction(1, 2), ring.hops),),)
    with pytest.raises(ValueError, match="segments of 2 sizes"):
        stretches(replace(plan, shares=None))


@pytest.mark.parametrize("name", ["ring", "rina", "hierarchical-ring"])
def test_the_chain_of_a_large_plan_is_that_of_its_stages(name):
    fabric = leaf_spine(1, 18, 4, 1e10, 1e10, 100_000)
    job = Assignment(fabric.hosts, options=BY_AGENTS if name == "rina" else {})
    plan = registry[name].plan(job, fabric.with_ina(fabric.tors))
    assert plan.workers > chain.WRITTEN_OUT
    assert chain.length(plan) == len(chain.steps(plan))


def test_a_ring_of_thousands_is_planned_without_its_operations():
    fabric = leaf_spine(1, 64, 32, 1e10, 1e10, 100_000)
    plan = registry["ring"].plan(Assignment(fabric.hosts), fabric)
    ((both,),) = stretches(plan)
    assert both.rounds == 2 * 2047 and both.hops[-1] == (2047, 0)
    assert chain.length(plan) == 2 * 2047
