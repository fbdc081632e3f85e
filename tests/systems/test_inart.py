"""InArt: shares depend on what each server's routes can carry."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

import testbed
from testbed.plan import cost as model
from testbed.plan.checker import check
from testbed.systems import Assignment, registry
from testbed.systems.inart import route
from testbed.systems.racks import dealt
from testbed.topology.builders import fat_tree, graph, leaf_spine
from testbed.topology.framing import framing

INART = registry["inart"]
ROOT = Path(__file__).parents[2]


def planned(fabric, workers, servers, **options):
    job = Assignment(workers, servers, INART.settle({"seed": 1, **options}))
    made = INART.plan(job, fabric)
    check(made)
    return made


def test_a_slow_server_gets_a_smaller_part():
    hosts = ("W1", "W2", "W3", "W4")
    fabric = graph({"S": [*hosts, "P", "Q"]}, [("Q", "S", 5e9)], 10e9, 10**6)
    made = planned(fabric, hosts, ("P", "Q"))
    assert made.shares == (Fraction(667, 1000), Fraction(333, 1000))
    assert planned(fabric, hosts, ("P", "Q"), split="equal").shares == (Fraction(1, 2),) * 2
    assert [tree.switches for tree in made.trees] == [(), ()]
    # N M/(k B) with servers' rates of 10 and 5: four workers at a total of 15 Gbit/s.
    paced = model.seconds_per_byte(made, fabric) * 15e9 / 8 * framing(fabric).ina_efficiency
    assert paced == pytest.approx(4, rel=0.01)


def test_one_rack_with_ina_needs_one_server_and_sums_everything_in_its_tor():
    fabric = leaf_spine(1, 1, 6, 1e10, 1e10, 10**6).with_ina(["t0"])
    made = planned(fabric, fabric.hosts[:4], fabric.hosts[4:])
    assert all(set(tree.parent.values()) == {"t0", tree.root} for tree in made.trees)
    ina = framing(fabric)
    paced = model.seconds_per_byte(made, fabric) * 1e10 / 8 * ina.ina_efficiency
    assert paced == pytest.approx(1, rel=0.05)


def test_a_limited_switch_sums_for_as_many_workers_as_it_can():
    fabric = fat_tree(6, 3, 20e9, 20e9, 256_000)
    fabric = fabric.with_ina(fabric.tors)
    limited = replace(fabric, capacity=dict.fromkeys(fabric.tors, 9e9))
    workers, servers = fabric.hosts[:50], fabric.hosts[50:]
    free, bound = (planned(each, workers, servers) for each in (fabric, limited))
    summed = [
        sum(len(tree.rank_of) - tree.streams for tree in made.trees) for made in (free, bound)
    ]
    assert summed[0] > summed[1]
    assert sum(bound.shares) == 1


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_more_draws_are_never_slower(seed):
    """The paper's worked example: with 200 draws the best is at least 2.5 Gbit/s."""
    racks = {"V1": ["W1", "W2", "W3", "W4", "S1"], "V2": ["W5", "W6", "S2"]}
    links = [("V1", "V2", 6e9), ("V1", "S1", 4e9), ("V2", "S2", 4e9)]
    fabric = graph(racks, links, 6e9, 10**7).with_ina(["V1", "V2"])
    fabric = replace(fabric, capacity={"V1": 6e9, "V2": 6e9})
    workers, servers = ("W1", "W2", "W3", "W4", "W5", "W6"), ("S1", "S2")
    rates = []
    for draws in (4, 32, 200):
        options = INART.settle({"seed": seed, "draws": draws})
        rates.append(route(Assignment(workers, servers, options), fabric).rate)
    assert rates == sorted(rates)
    assert rates[-1] >= 2.5e9


def test_a_server_that_works_too_is_refused():
    fabric = leaf_spine(1, 1, 6, 1e10, 1e10, 10**6)
    with pytest.raises(ValueError, match="the server h1 is a worker too"):
        planned(fabric, fabric.hosts[:4], ("h5", "h1"))


def test_the_chosen_split_is_faster_than_equal_parts_in_packets(tmp_path):
    """Windows of 2 packets, as with queues of 256 KB, made the largest part the slowest."""
    rows = testbed.run(ROOT / "experiments" / "inart.yaml", tmp_path).results
    assert set(rows.verdict) == {"valid"}
    chosen, equal = (
        rows[(rows.system == "inart") & (rows.settings.str.contains("equal") == is_equal)].iloc[0]
        for is_equal in (False, True)
    )
    assert chosen.jct_s < equal.jct_s
    assert chosen.jct_s < 1.1 * chosen.expected_jct_s


@pytest.mark.parametrize("racks", [3, 4, 8])
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("split", ["best", "equal"])
def test_more_switches_do_not_make_it_slower(racks, seed, split):
    """Seeds 1 and 2 once lost 20 % to INA in ToRs alone, on three racks."""
    fabric = leaf_spine(2, racks, 4, 1e10, 1e10, 10**6)
    hosts = dealt(fabric.hosts, fabric)
    job = hosts[: 3 * racks], hosts[3 * racks :]
    few, all_switches = (
        model.seconds_per_byte(planned(fabric.with_ina(ina), *job, seed=seed, split=split), fabric)
        for ina in (fabric.tors, fabric.switches)
    )
    assert all_switches <= 1.01 * few
