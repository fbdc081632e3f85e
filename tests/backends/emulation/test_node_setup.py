"""The set-up commands of each node, as text: no root."""

from __future__ import annotations

import re

import pytest

from testbed.backends.emulation import node_setup
from testbed.topology.addressing import Addressing
from testbed.topology.builders import fat_tree

FABRIC = fat_tree(4, 2, 1e9, 1e9, 256_000)
ADDRESSING = Addressing(FABRIC)


def script(node, p4=(), seed=1, **more):
    return node_setup.script(node, FABRIC, ADDRESSING, p4, 10, seed, **more)


@pytest.mark.parametrize("router", ["t0", "a3", "c2"])
def test_a_router_knows_every_shortest_path(router):
    lines = re.findall(r"^route add (\S+)/(?:32|16)(.*)$", script(router), re.MULTILINE)
    ways = {prefix: set(re.findall(r"dev (\S+)", hops)) for prefix, hops in lines}
    assert len(ways) == len(lines)
    for prefix, node in ADDRESSING.routes(router).items():
        wanted = {ADDRESSING.interface(router, hop) for hop in FABRIC.next_hops(router, node)}
        assert ways[prefix.partition("/")[0]] == wanted


def seeds(seed):
    texts = (script(switch, seed=seed) for switch in FABRIC.switches)
    return [re.search(r"echo (\d+) > \S+_seed", text)[1] for text in texts]


def test_each_router_hashes_its_own_way_as_the_seed_has_it():
    assert len({*seeds(1), *seeds(2)}) == 2 * len(FABRIC.switches)
    assert seeds(1) == seeds(1)
    assert "0" not in seeds(1)  # with 0 the kernel draws a seed at each boot


def test_a_p4_switch_leaves_routing_to_its_program():
    text = script("a0", ["a0"])
    assert "route add" not in text
    assert "_hash" not in text


def test_superframes_are_short_or_not_at_all():
    short, whole = script("t0", superframe=3), script("t0", superframe=1)
    assert "gso_max_segs 3" in short and "gso off" not in short
    assert "gso_max_segs 1" in whole and "gso off" in whole


def test_a_routed_flow_has_rules_where_other_paths_are_as_short():
    above = ("t0", "a1", "c2", "a7", "t7", "h15")
    routes = {("h0", "h15"): ("h0", *above), ("h1", "h15"): ("h1", *above)}
    rules = re.findall(r"^rule add .*$", script("t0", routes=routes), re.MULTILINE)
    assert rules == [
        "rule add from 10.0.0.1 to 10.7.0.2 lookup 104",
        "rule add from 10.0.0.2 to 10.7.0.2 lookup 104",
    ]
    assert script("t0", routes=routes).count("table 104") == 1
    assert script("a1", routes=routes).count("rule add") == 2
    one_way = [script(switch, routes=routes) for switch in ("c2", "a7", "t7", "a0", "t1")]
    assert "rule add" not in "".join(one_way)


def test_a_share_of_packets_is_lost_at_each_interface():
    text = node_setup.impairment("loss", "ingress", "h0-t0", 0.001)
    assert text.count("numgen random mod 1000000 < 1000 drop") == 1
    assert text.count("hook ingress device h0-t0") == 1


@pytest.mark.parametrize(("share", "rule"), [(1, "h0-t0 drop\n"), (0, "flush chain netdev loss")])
def test_a_rule_for_all_packets_or_none_replaces_an_earlier_one(share, rule):
    *_, flushed, last = node_setup.impairment("loss", "ingress", "h0-t0", share).splitlines(True)
    assert rule in last
    assert share == 0 or flushed == "flush chain netdev loss ingress-h0-t0\n"


def test_a_copy_is_not_copied_again():
    text = node_setup.impairment("duplication", "egress", "h0-t0", 0.001)
    assert "meta mark 0 numgen random mod 1000000 < 1000 meta mark set 1 dup to h0-t0" in text


@pytest.mark.parametrize(("dilation", "least"), [(None, 10), (10, 10), (100, 10), (1600, 160)])
def test_the_least_timeout_of_tcp_grows_with_the_dilation(dilation, least):
    text = node_setup.script("h0", FABRIC, ADDRESSING, (), dilation, 1)
    assert re.findall(r"rto_min (\S+)", text) == [f"{least}ms"]
