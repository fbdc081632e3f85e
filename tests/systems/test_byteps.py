"""BytePS: its shares between a ring's time and M/B, and what its options change."""

from __future__ import annotations

from fractions import Fraction

import pytest
from paces import pace

from testbed.plan.checker import check
from testbed.plan.program import Pipelining
from testbed.systems import Assignment, registry
from testbed.topology.builders import leaf_spine

BYTEPS = registry["byteps"]
FABRIC = leaf_spine(1, 1, 16, 1e10, 1e10, 10**6)


def plan(workers, spare, **options):
    hosts = FABRIC.hosts
    servers = hosts[workers : workers + spare]
    made = BYTEPS.plan(Assignment(hosts[:workers], servers, BYTEPS.settle(options)), FABRIC)
    check(made)
    return made


def test_without_spare_machines_it_costs_what_a_ring_costs_and_with_n_of_them_m_over_b():
    hosts = FABRIC.hosts[:8]
    ring = registry["ring"].plan(Assignment(hosts), FABRIC)
    assert pace(plan(8, 0), FABRIC) == pytest.approx(pace(ring, FABRIC), rel=0.001)
    assert pace(plan(8, 8), FABRIC) == pytest.approx(1, rel=0.001)
    paces = [pace(plan(8, spare), FABRIC) for spare in range(9)]
    assert paces == sorted(paces, reverse=True)


def test_shares_are_those_of_the_released_code():
    n, k = 8, 4
    shares = plan(n, k).shares
    # common/global.cc: the share of all tensors that the spare machines hold together
    assert sum(shares[:k]) == Fraction(2 * k * (n - 1), n * (n + k) - 2 * k)


def test_partition_credit_and_order_are_its_own():
    assert plan(4, 2).pipelining == Pipelining(4_096_000, 4, "priority")
    asked = plan(4, 2, partition=100_000, credit=0, order="backward").pipelining
    assert asked == Pipelining(100_000, None, "backward")
