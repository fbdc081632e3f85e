"""Rings: one ring through all workers, and the hierarchical ring."""

from __future__ import annotations

from fractions import Fraction

import pytest

from testbed.plan import chain
from testbed.plan import cost as model
from testbed.plan.checker import check
from testbed.plan.program import Send
from testbed.systems import Assignment, registry
from testbed.topology.builders import leaf_spine

RING, HIERARCHY = registry["ring"], registry["hierarchical-ring"]


def successors(plan):
    """The rank to which each rank sends."""
    to = [{op.to for op in program if isinstance(op, Send)} for program in plan.programs]
    return [found.pop() for found in to if len(found) == 1]


def crossings(plan, fabric):
    racks = [fabric.tor_of(host) for host in plan.hosts]
    return sum(racks[rank] != racks[to] for rank, to in enumerate(successors(plan)))


@pytest.mark.parametrize(("order", "across"), [("rack", 3), ("naive", 12)])
def test_only_a_naive_ring_crosses_racks_at_every_step(order, across):
    fabric = leaf_spine(2, 3, 4, 1e10, 1e10, 10**6)
    plan = RING.plan(Assignment(fabric.hosts, options={"order": order}), fabric)
    check(plan)
    assert crossings(plan, fabric) == across


def test_a_ring_enters_a_rack_once_whatever_the_order_of_ranks():
    fabric = leaf_spine(2, 3, 4, 1e10, 1e10, 10**6)
    scattered = fabric.hosts[::5] + fabric.hosts[1::5] + fabric.hosts[3::5]
    assert crossings(RING.plan(Assignment(scattered), fabric), fabric) == 3


def test_a_naive_ring_pays_for_a_narrow_core():
    fabric = leaf_spine(1, 2, 4, 1e10, 1e10, 10**6)
    jobs = [Assignment(fabric.hosts, options={"order": order}) for order in ("rack", "naive")]
    rack, naive = (model.seconds_per_byte(RING.plan(job, fabric), fabric) for job in jobs)
    assert naive == pytest.approx(4 * rack)


def test_another_order_is_refused():
    with pytest.raises(ValueError, match="option order: found 'random', wanted one of rack, naive"):
        RING.settle({"order": "random"})


@pytest.mark.parametrize("racks", [(5,), (1, 1, 1, 1)], ids=str)
def test_one_level_of_a_hierarchy_is_a_ring(racks):
    fabric = leaf_spine(2, len(racks), racks, 1e10, 1e10, 10**6)
    job = Assignment(fabric.hosts)
    assert HIERARCHY.plan(job, fabric).programs == RING.plan(job, fabric).programs


@pytest.mark.parametrize(("racks", "n"), [(3, 4), (4, 2), (2, 8)])
def test_a_hierarchy_has_a_shorter_chain(racks, n):
    fabric = leaf_spine(2, racks, n, 1e10, 1e10, 10**6)
    plan = HIERARCHY.plan(Assignment(fabric.hosts), fabric)
    assert chain.length(plan) == 2 * (n - 1) + 2 * (racks - 1)
    assert plan.chunks == racks * n
    assert {plan.share(chunk) for chunk in range(plan.chunks)} == {Fraction(1, racks * n)}


def test_uneven_racks_cut_the_gradient_where_either_of_them_does():
    fabric = leaf_spine(2, 2, (3, 2), 1e10, 1e10, 10**6)
    plan = HIERARCHY.plan(Assignment(fabric.hosts), fabric)
    check(plan)
    thirds_and_halves = [Fraction(1, 3), Fraction(1, 6), Fraction(1, 6), Fraction(1, 3)]
    assert plan.shares == tuple(piece / 2 for piece in thirds_and_halves for _ in range(2))


def test_every_worker_of_an_uneven_rack_owns_as_much():
    fabric = leaf_spine(2, 3, (5, 3, 2), 1e10, 1e10, 10**6)
    plan = HIERARCHY.plan(Assignment(fabric.hosts), fabric)
    across = dict.fromkeys(plan.hosts, Fraction(0))
    for step in chain.steps(plan):
        for sent in step:
            source, to = plan.hosts[sent.source], plan.hosts[sent.to]
            if fabric.tor_of(source) != fabric.tor_of(to):
                across[source] += plan.share(sent.chunk)
    for tor in fabric.tors:
        rack = fabric.rack_hosts(tor)
        assert {across[host] for host in rack} == {2 * Fraction(2, 3) / len(rack)}


@pytest.mark.parametrize("in_flight", [None, 1, 3])
def test_buckets_in_flight_are_bounded_if_asked(in_flight):
    options = {} if in_flight is None else {"in_flight": in_flight}
    fabric = leaf_spine(2, 2, 3, 1e10, 1e10, 100_000)
    plan = RING.plan(Assignment(fabric.hosts, (), RING.settle(options)), fabric)
    assert plan.pipelining.credit == in_flight
