"""A simulation by whole rounds takes as long as the same plan operation by operation."""

from __future__ import annotations

from dataclasses import replace

import pytest
from simulated import job, plan

from testbed.backends.flow.scenario import Assumptions
from testbed.backends.flow.simulate import simulate
from testbed.topology.builders import fat_tree, leaf_spine

FABRICS = [
    leaf_spine(1, 1, 8, 1e10, 1e10, 10**6),
    leaf_spine(2, 4, 4, 1e10, 2.5e9, 10**6),
    fat_tree(4, 2, 1e10, 1e10, 10**6),
]
CLOSED, STEPWISE = 0, 10**9
BY_AGENTS = {"reading": "agent", "groups": "always"}


def times(fabric, *jobs, ecmp="hash"):
    return [
        simulate(
            fabric, jobs, Assumptions(ecmp=ecmp, closed_from=closed_from, most_transfers=0)
        ).jct_s(0)
        for closed_from in (CLOSED, STEPWISE)
    ]


@pytest.mark.parametrize("fabric", FABRICS, ids=lambda fabric: fabric.name)
@pytest.mark.parametrize("ecmp", ["hash", "even"])
@pytest.mark.parametrize("step_s", [0.0, 1e-3])
def test_a_ring_of_one_bucket_or_many(fabric, ecmp, step_s):
    ring = plan("ring", fabric, len(fabric.hosts))
    for sizes, ready in (([32_000_000], [0.0]), ([8_000_000] * 3, [0.0, 0.001, 0.01])):
        closed, stepwise = times(fabric, job(ring, sizes, ready, step_s=step_s), ecmp=ecmp)
        assert closed == pytest.approx(stepwise, rel=0.01)


def test_a_ring_of_small_chunks_pays_for_packets_on_their_way():
    fabric = FABRICS[2]
    closed, stepwise = times(fabric, job(plan("ring", fabric, 16), [300_000]))
    assert closed == pytest.approx(stepwise, rel=0.01)
    assert closed > 1.2 * 2 * 15 / 16 * 300_000 * 8 / 1e10


@pytest.mark.parametrize("fabric", FABRICS, ids=lambda fabric: fabric.name)
@pytest.mark.parametrize("ina", [slice(0), slice(0, 1), slice(None)], ids=["none", "one", "all"])
@pytest.mark.parametrize("step_s", [0.0, 1e-3])
def test_rina_of_one_bucket(fabric, ina, step_s):
    fabric = fabric.with_ina(fabric.tors[ina])
    rina = plan("rina", fabric, len(fabric.hosts), **BY_AGENTS)
    closed, stepwise = times(fabric, job(rina, [32_000_000], step_s=step_s), ecmp="even")
    # With INA in one rack only, positions do not keep step, and stages overlap.
    assert closed == pytest.approx(stepwise, rel=0.08 if ina == slice(0, 1) else 0.01)


@pytest.mark.parametrize("name", ["ring", "rina"])
def test_beside_another_job(name):
    # The other job always has something to send, and uses the same links.
    fabric = leaf_spine(1, 2, 8, 1e10, 2e10, 10**6)
    fabric = fabric.with_ina(fabric.tors)
    other = job(plan("ps", fabric, 3, first=5, servers=1), [200_000_000])
    options = BY_AGENTS if name == "rina" else {}
    made = job(plan(name, fabric, 5, **options), [64_000_000])
    closed, stepwise = times(fabric, made, other)
    assert closed == pytest.approx(stepwise, rel=0.05)


def test_two_rings_that_share_links_take_twice_as_long():
    fabric = leaf_spine(1, 2, 4, 1e10, 1e10, 10**6)
    hosts = fabric.hosts
    alone = job(plan("ring", fabric, 8))
    first = job(plan("ring", fabric, 8))
    (closed, stepwise) = times(fabric, first, alone)
    assert closed == pytest.approx(stepwise, rel=0.01)
    single = simulate(fabric, [alone], Assumptions(closed_from=CLOSED)).jct_s(0)
    assert closed == pytest.approx(2 * single, rel=0.01)
    assert len(hosts) == 8


def test_uneven_racks_in_a_hierarchy_of_rings_are_about_right():
    fabric = leaf_spine(2, 3, (5, 4, 2), 1e10, 1e10, 10**6)
    made = job(plan("hierarchical-ring", fabric, 11), [64_000_000])
    closed, stepwise = times(fabric, made, ecmp="even")
    assert closed == pytest.approx(stepwise, rel=0.2)


def simulated(name, workers, ina, closed_from=33, sizes=(64_000_000,)):
    fabric = leaf_spine(2, 11, 3, 1e10, 1e10, 10**6)
    options = BY_AGENTS if name == "rina" else {}
    made = plan(name, fabric.with_ina(fabric.tors[:ina]), workers, **options)
    assumptions = Assumptions(ecmp="even", closed_from=closed_from)
    return simulate(fabric, [job(made, sizes)], assumptions).jct_s(0)


@pytest.mark.parametrize("sizes", [(64_000_000,), (32_000_000,) * 2], ids=["one", "two"])
@pytest.mark.parametrize(("name", "ina"), [("ring", 0), ("rina", 0), ("rina", 5), ("rina", 11)])
def test_time_moves_smoothly_where_closed_stretches_begin(name, ina, sizes):
    before, after = (simulated(name, workers, ina, sizes=sizes) for workers in (32, 33))
    assert after == pytest.approx(before, rel=0.005)
    assert after == pytest.approx(simulated(name, 33, ina, STEPWISE, sizes), rel=0.01)


def test_a_large_hierarchy_of_rings_is_followed_operation_by_operation():
    assert simulated("hierarchical-ring", 33, 0) == simulated("hierarchical-ring", 33, 0, STEPWISE)


def test_a_slow_link_in_a_large_ring():
    fabric = leaf_spine(2, 9, 4, 1e10, 1e10, 10**6)
    links = (
        replace(link, rate=2.5e9) if "h7" in (link.a, link.b) else link for link in fabric.links
    )
    slow = replace(fabric, links=tuple(links))
    closed, stepwise = times(slow, job(plan("ring", slow, 36), [32_000_000] * 2), ecmp="even")
    assert closed == pytest.approx(stepwise, rel=0.01)
