"""Routes that lead to their destination, and routes that are impossible."""

from __future__ import annotations

from itertools import pairwise

import pytest

from testbed.topology.builders import fat_tree, graph
from testbed.topology.paths import EvenPaths, check, diverted, spread

CHAIN = graph(
    {"S1": ["a"], "S2": ["b"], "S3": ["c"], "S4": []},
    [("S1", "S2", 1), ("S2", "S3", 1), ("S2", "S4", 1)],
    1,
    1,
)
TREE = fat_tree(4, 2, 1, 1, 1)
UP = ("h0", "t0", "a1", "c2", "a7", "t7", "h15")


def test_routes_that_lead_to_their_destination():
    check(CHAIN, {})
    check(CHAIN, {("a", "c"): ("a", "S1", "S2", "S3", "c")})
    check(CHAIN, {("S1", "c"): ("S1", "S2", "S3", "c"), ("a", "S4"): ("a", "S1", "S2", "S4")})
    check(TREE, {("h0", "h15"): UP, ("h15", "h0"): UP[::-1], ("h0", "h1"): ("h0", "t0", "h1")})


@pytest.mark.parametrize(
    ("route", "wrong"),
    [
        ("a S1 S3 c", "from a to c cannot go via S3, which is not a switch next to S1"),
        ("a S1 b S2 S3 c", "via b, which is not a switch next to S1"),
        ("a S1 x S3 c", "via x, which is not a switch"),
        ("a S2 S3 c", "via S2, which is not a switch next to a"),
        ("a S1 S2 x", "a-S1-S2-x: it needs two nodes"),
        ("a S1 a", "it needs two nodes"),
        ("S1 S4", "there from S1, which is not next to it"),
        ("b S2 S4 S2 S3 c", "from b to c cannot go via S2 more than once"),
        ("a S1 S2 c", "from a to c cannot go there from S2, which is not next to it"),
        ("a c", "there from a, which is not next to it"),
    ],
)
def test_routes_that_cannot_be_kept(route, wrong):
    nodes = tuple(route.split())
    with pytest.raises(ValueError, match=wrong):
        check(CHAIN, {(nodes[0], nodes[-1]): nodes})


@pytest.mark.parametrize("route", ["", "a", "a S1 S2 b", "c S3 S2 S1 a"])
def test_a_route_has_the_ends_of_its_flow(route):
    with pytest.raises(ValueError, match=r"from a to c cannot go .*: its route must begin and end"):
        check(CHAIN, {("a", "c"): tuple(route.split())})


def test_a_route_is_told_only_where_it_could_be_another():
    routes = {("h0", "h15"): UP}
    told = {node: hops for node in TREE.nodes if (hops := diverted(TREE, routes, node))}
    assert told == {"t0": {("h0", "h15"): "a1"}, "a1": {("h0", "h15"): "c2"}}


def test_a_routed_flow_is_whole_on_its_links():
    even = EvenPaths(TREE, {("h0", "h15"): UP})
    assert even.shares("h0", "h15") == dict.fromkeys(pairwise(UP), 1.0)
    assert even.shares("h15", "h0")["t7", "a6"] == 0.5


def test_flows_spread_over_all_links():
    """Every host of one pod sends to its counterpart in the next: all flows fit side by side."""
    flows = {(f"h{host}", f"h{host + 4}"): 1.0 for host in range(4)}
    routes = spread(TREE, flows)
    check(TREE, routes)
    links = [link for route in routes.values() for link in pairwise(route)]
    assert len(links) == len(set(links)) == 4 * 6


def test_a_spread_flow_keeps_off_a_given_route():
    flows = {("h1", "h14"): 1.0, ("h0", "h15"): 1.0, ("h0", "h1"): 1.0}
    routes = spread(TREE, flows, {("h0", "h15"): UP})
    assert routes["h0", "h15"] == UP
    assert not set(UP[1:-1]) & set(routes["h1", "h14"]) - {"t0", "t7"}
    assert ("h0", "h1") not in routes, "it has no choice"


def test_large_flows_are_spread_first_and_fast_links_carry_more():
    switches = {"A": ["a", "b", "c"], "B": [], "C": [], "D": ["d"]}
    links = [("A", "B", 3.0), ("B", "D", 3.0), ("A", "C", 1.0), ("C", "D", 1.0)]
    fabric = graph(switches, links, 9.0, 1)
    routes = spread(fabric, {("a", "d"): 1.0, ("b", "d"): 1.0, ("c", "d"): 2.0})
    assert sorted(route[2] for route in routes.values()) == ["B", "B", "C"]
    assert routes["c", "d"][2] == "B"
