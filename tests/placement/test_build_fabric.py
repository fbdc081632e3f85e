"""The fabric that is built has the nodes that experiment files name."""

from __future__ import annotations

import pytest
from tiny import experiment

from testbed.placement.fabric import build_fabric, what_matters

FABRICS = {
    "leaf-spine": {"spines": 3, "leaves": 2, "hosts_per_leaf": [3, 4]},
    "fat-tree": {"k": 4},
    "uneven fat-tree": {"kind": "fat-tree", "k": 4, "hosts_per_edge": [1, 2, 3, 1, 1, 1, 1, 4]},
    "circuits": {"hosts": 6, "host_links": 4},
    "circuits twice": {"kind": "circuits", "hosts": 7, "host_links": 4, "circuits": [2, 3]},
    "graph": {
        "switches": {"X": [], "S1": ["W1", "W2"], "S2": ["W3", "W4", "W5", "PS"]},
        "links": [{"ends": ["S1", "X"], "rate": "3Gbit"}, {"ends": ["X", "S2"], "rate": "3Gbit"}],
    },
}


def wanted(tmp_path, kind, **more):
    shape = {"kind": kind, "host_rate": "10Gbit", **FABRICS[kind], **more}
    return experiment(tmp_path, fabric=shape)


@pytest.mark.parametrize("kind", FABRICS)
def test_nodes_are_those_of_the_schema(kind, tmp_path):
    asked = wanted(tmp_path, kind)
    fabric = build_fabric(asked)
    assert fabric.hosts == asked.fabric.host_names
    assert fabric.tors == asked.fabric.tor_names
    assert set(fabric.switches) == set(asked.fabric.switch_names)
    assert len(fabric.switches) == len(asked.fabric.switch_names)
    assert len(fabric.nodes) == asked.fabric.size
    assert tuple(len(fabric.rack_hosts(tor)) for tor in fabric.tors) == asked.fabric.racks
    links = [{link.a, link.b} for link in fabric.links]
    assert len(links) == len(list(asked.fabric.link_ends))
    assert all(set(ends) in links for ends in asked.fabric.link_ends)


def test_oversubscription_is_that_of_the_fullest_rack(tmp_path):
    for kind, link, uplinks in [
        ("leaf-spine", ("t0", "s0"), 3),
        ("uneven fat-tree", ("t0", "a0"), 2),
    ]:
        fabric = build_fabric(wanted(tmp_path, kind, oversubscription=2))
        assert fabric.link(*link).rate * uplinks == pytest.approx(4 * 10e9 / 2)


@pytest.mark.parametrize(
    ("ina", "more", "chosen"),
    [
        ("all", {}, {"S1", "S2"}),
        ("none", {}, set()),
        ("all", {"ina_tier": "any"}, {"X", "S1", "S2"}),
        (1, {}, {"S2"}),
        (0.5, {}, {"S2"}),
        (["X"], {}, {"X"}),
    ],
)
def test_ina_switches_are_chosen(ina, more, chosen, tmp_path):
    assert build_fabric(wanted(tmp_path, "graph", ina=ina, **more)).ina == chosen


def test_what_switches_and_hosts_can_do_is_kept(tmp_path):
    fabric = build_fabric(wanted(tmp_path, "graph"))
    assert (fabric.capacity, fabric.step_latency) == ({}, 0)
    more = {"slots": 7, "step_latency": "10us", "capacity": "9Gbit"}
    fabric = build_fabric(wanted(tmp_path, "graph", **more))
    assert (fabric.slots, fabric.step_latency) == (7, 1e-5)
    assert fabric.capacity == dict.fromkeys(["S1", "S2", "X"], 9e9)
    fabric = build_fabric(wanted(tmp_path, "graph", capacity={"X": "1Gbit"}))
    assert fabric.capacity == {"X": 1e9}


@pytest.mark.parametrize(
    ("options", "anew"), [({}, True), ({"seed": 1}, False), ({"solver": "milp"}, False)], ids=str
)
def test_a_plan_that_is_drawn_is_drawn_anew_for_each_repeat(options, anew, tmp_path):
    def of(seed):
        changes = {"jobs__0__system": "grid", "jobs__0__options": options, "emulation__seed": seed}
        return what_matters(experiment(tmp_path, **changes))

    assert (of(1) != of(2)) == anew
