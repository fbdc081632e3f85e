"""GRID's planner: the paper's worked example, solvers against each other, and limits."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed import model
from testbed.dataplane import wire
from testbed.plan.checker import check
from testbed.systems.gradient_routing import Problem, choices, flow
from testbed.systems.grid import SYSTEM, plan, route
from testbed.systems.system import Assignment
from testbed.topology.builders import fat_tree, leaf_spine
from testbed.topology.fabric import Fabric, Kind, Link, Node

G = 1e9
RACKS = {"S1": ("W1", "W2", "W3", "W4"), "S2": ("W5", "W6"), "S3": ("W7", "W8", "PS")}
WORKERS = tuple(f"W{number}" for number in range(1, 9))


def triangle() -> Fabric:
    """Figure 1 of the paper."""
    nodes = [Node(host, Kind.HOST, i) for i, rack in enumerate(RACKS.values()) for host in rack]
    nodes += [Node(tor, Kind.TOR, i) for i, tor in enumerate(RACKS)]
    links = [Link(host, tor, 9 * G, 10**6) for tor, rack in RACKS.items() for host in rack]
    links += [Link(a, b, 3 * G, 10**6) for a, b in (("S1", "S3"), ("S1", "S2"), ("S2", "S3"))]
    capacity = dict.fromkeys(RACKS, 9 * G)
    return Fabric(
        "triangle", {n.name: n for n in nodes}, tuple(links), frozenset(RACKS), capacity=capacity
    )


def example(**options) -> Assignment:
    return Assignment(WORKERS, ("PS",), SYSTEM.settle(options))


@pytest.mark.parametrize("solver", ["milp", "rounding"])
@pytest.mark.parametrize(("strategy", "rate"), [("none", 1.0), ("nearest", 2.4375), ("grid", 3.0)])
def test_the_worked_example(strategy, rate, solver):
    job, fabric = example(strategy=strategy, solver=solver), triangle()
    assert route(job, fabric).rate / G == pytest.approx(rate)
    made = plan(job, fabric)
    check(made)
    # The plan's own closed form comes to the same rate, but for headers.
    pace = 1 / (8 * model.seconds_per_byte(made, fabric)) * 64 / G
    efficiency = wire.INA_EFFICIENCY if made.trees else wire.TCP_EFFICIENCY
    assert pace / efficiency == pytest.approx(rate, rel=0.03 if strategy == "none" else 0.002)


def test_the_example_sends_a_worker_to_the_second_switch():
    found = route(example(), triangle())
    where = [choice.switch for own in found.shares for choice in own]
    assert where[:4].count("S1") == 3
    assert where[:4].count("S2") == 1
    moved = [choice.via for own in route(example(strategy="none"), triangle()).shares
             for choice in own]  # fmt: skip
    assert moved.count("S2") == 1


def test_what_the_first_switch_cannot_add_goes_past_it():
    made = plan(example(strategy="nearest"), triangle())
    assert [float(share) for share in made.shares] == pytest.approx([12 / 13, 1 / 13], abs=1e-3)
    first, second = made.trees
    assert first.parent["W1"] == "S1"
    assert second.parent["W1"] == "PS"
    assert second.parent["W5"] == "S2"


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_the_exact_solution_is_never_beaten_and_always_holds(data):
    racks = data.draw(st.lists(st.integers(1, 3), min_size=2, max_size=3))
    fabric = leaf_spine(2, len(racks), (*racks[:-1], racks[-1] + 1), 1e10, 1e10, 10**6)
    programmable = data.draw(st.sets(st.sampled_from(fabric.switches), min_size=1))
    capacity = {s: data.draw(st.sampled_from([5e9, 1e10, 4e10])) for s in sorted(programmable)}
    fabric = replace(fabric.with_ina(programmable), capacity=capacity)
    workers, server = fabric.hosts[:-1], fabric.hosts[-1]
    options = [choices(fabric, worker, server, sorted(programmable)) for worker in workers]
    problem = Problem(fabric, workers, server, options)
    exact, drawn = problem.exact(), problem.rounded(seed=1)
    assert exact.rate >= drawn.rate * (1 - 1e-6)
    dice = random.Random(0)
    for _ in range(20):
        assert problem.rate([dice.choice(own) for own in options]) <= exact.rate * (1 + 1e-6)


def test_flows_are_whole_at_their_ends():
    fabric = fat_tree(4, [2] * 8, 1e10, 1e10, 10**6)
    load = flow(fabric, "h0", "h15")
    assert load["h0", "t0"] == 1
    assert load["t7", "h15"] == pytest.approx(1)
    assert sum(load.values()) == pytest.approx(6)


def test_a_rate_out_of_reach_is_refused_before_anything_is_built():
    words = "no feasible rate: found at most 3 ?Gbit.* for each of 8 workers, wanted 4Gbit"
    with pytest.raises(ValueError, match=words):
        plan(example(rate="4Gbit"), triangle())
    plan(example(rate="3Gbit"), triangle())


def test_the_papers_fat_tree_is_planned():
    """80 switches, 192 servers, 40 workers, 20 % of the switches programmable (§6.3)."""
    bare = fat_tree(8, [6] * 32, 1e11, 1e11, 10**6)
    assert (len(bare.switches), len(bare.hosts)) == (80, 192)
    dice = random.Random(1)
    chosen = dice.sample(bare.switches, 16)
    capacity = {switch: dice.uniform(1e11, 3.2e12) for switch in chosen}
    fabric = replace(bare.with_ina(chosen), capacity=capacity)
    server, *workers = dice.sample(bare.hosts, 41)
    rates = {
        strategy: route(
            Assignment(tuple(workers), (server,), SYSTEM.settle({"strategy": strategy})), fabric
        ).rate
        for strategy in ("grid", "nearest", "none")
    }
    assert rates["none"] == pytest.approx(1e11 / 40)
    assert rates["grid"] > rates["nearest"] > rates["none"]
