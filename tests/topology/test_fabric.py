"""Fabrics have the right shape, and next hops lead to the destination."""

from __future__ import annotations

import ipaddress
import time
from collections import Counter

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.topology.addressing import Addressing
from testbed.topology.builders import fat_tree, graph, leaf_spine
from testbed.topology.fabric import Fabric, Kind, Link, Node

racks = st.lists(st.integers(0, 5), min_size=1, max_size=5).filter(any)
leaf_spines = st.builds(
    lambda spines, racks: leaf_spine(spines, len(racks), racks, 1e9, 4e9, 9000),
    st.integers(1, 4),
    racks,
)
fat_trees = st.sampled_from([2, 4]).flatmap(
    lambda k: st.builds(
        lambda racks: fat_tree(k, racks, 1e9, 4e9, 9000),
        st.lists(st.integers(0, 3), min_size=k * k // 2, max_size=k * k // 2).filter(any),
    )
)


@st.composite
def graphs(draw):
    """A random tree of switches with some additional links, and hosts on some of them."""
    count = draw(st.integers(1, 7))
    racks = draw(st.lists(st.integers(0, 3), min_size=count, max_size=count).filter(any))
    switches = {f"S{at}": [f"W{at}_{n}" for n in range(size)] for at, size in enumerate(racks)}
    pairs = {(draw(st.integers(0, at - 1)), at) for at in range(1, count)}
    more = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1))
    pairs |= {(a, b) for a, b in draw(st.lists(more)) if a < b}
    return graph(switches, [(f"S{a}", f"S{b}", 4e9) for a, b in sorted(pairs)], 1e9, 9000)


fabrics = leaf_spines | fat_trees | graphs()


@given(st.integers(1, 4), racks)
def test_a_leaf_spine_has_its_shape(spines, racks):
    fabric = leaf_spine(spines, len(racks), racks, 1e9, 4e9, 9000)
    assert fabric.hosts == tuple(f"h{i}" for i in range(sum(racks)))
    assert fabric.tors == tuple(f"t{i}" for i in range(len(racks)))
    assert set(fabric.switches) == {*fabric.tors, *(f"s{i}" for i in range(spines))}
    assert [len(fabric.rack_hosts(tor)) for tor in fabric.tors] == racks
    assert sum((fabric.rack_hosts(tor) for tor in fabric.tors), ()) == fabric.hosts
    assert len(fabric.links) == sum(racks) + spines * len(racks)
    for link in fabric.links:
        kinds = {fabric.nodes[link.a].kind, fabric.nodes[link.b].kind}
        assert link.rate == (1e9 if Kind.HOST in kinds else 4e9)
        assert kinds in ({Kind.HOST, Kind.TOR}, {Kind.TOR, Kind.SPINE})
    for host in fabric.hosts:
        assert host in fabric.rack_hosts(fabric.tor_of(host))
        assert fabric.neighbours(host) == (fabric.tor_of(host),)


def test_one_number_fills_every_rack():
    assert leaf_spine(2, 3, 4, 1, 1, 1).nodes == leaf_spine(2, 3, [4, 4, 4], 1, 1, 1).nodes


def test_rack_sizes_must_match_the_leaves():
    with pytest.raises(ValueError, match="2 rack sizes for 3 leaves"):
        leaf_spine(1, 3, [1, 2], 1, 1, 1)


def paths(fabric, source, destination):
    """All paths that next hops allow."""
    if source == destination:
        return [[destination]]
    return [
        [source, *rest]
        for hop in fabric.next_hops(source, destination)
        for rest in paths(fabric, hop, destination)
    ]


@given(fabrics, st.data())
@settings(max_examples=60)
def test_next_hops_are_all_shortest_paths(fabric, data):
    source = data.draw(st.sampled_from(sorted(fabric.nodes)))
    destination = data.draw(st.sampled_from(sorted(fabric.nodes)))
    if source == destination:
        return
    whole = nx.Graph((link.a, link.b) for link in fabric.links)
    forwarding = whole.subgraph([*fabric.switches, source, destination])
    if not nx.has_path(forwarding, source, destination):
        return
    wanted = sorted(nx.all_shortest_paths(forwarding, source, destination))
    assert sorted(paths(fabric, source, destination)) == wanted


def test_every_rack_reaches_every_other_over_every_spine():
    fabric = leaf_spine(3, 4, 2, 1e9, 1e9, 9000)
    for tor in fabric.tors:
        for other in fabric.tors:
            if tor != other:
                assert fabric.next_hops(tor, other) == ("s0", "s1", "s2")


@pytest.mark.parametrize("k", [2, 4, 6])
def test_a_fat_tree_has_its_shape(k):
    fabric = fat_tree(k, k // 2, 1e9, 4e9, 9000)
    tiers = Counter(node.kind for node in fabric.nodes.values())
    assert tiers == {
        Kind.HOST: k**3 // 4,
        Kind.TOR: k * k // 2,
        Kind.AGGREGATION: k * k // 2,
        Kind.CORE: k * k // 4,
    }
    assert fabric.hosts == tuple(f"h{i}" for i in range(k**3 // 4))
    # Every switch has k ports, and any two racks have the paper's number of paths.
    assert {len(fabric.neighbours(switch)) for switch in fabric.switches} == {k}
    for tor in fabric.tors[1:]:
        same_pod = fabric.nodes[tor].rack // (k // 2) == 0
        assert len(paths(fabric, "t0", tor)) == (k // 2 if same_pod else k * k // 4)
    for link in fabric.links:
        assert link.rate == (1e9 if fabric.nodes[link.a].kind is Kind.HOST else 4e9)


def test_a_fat_tree_may_have_uneven_racks():
    racks = [6, 1, 2, 0, 3, 3, 1, 1]
    fabric = fat_tree(4, racks, 1, 1, 1)
    assert [len(fabric.rack_hosts(tor)) for tor in fabric.tors] == racks
    assert sum((fabric.rack_hosts(tor) for tor in fabric.tors), ()) == fabric.hosts
    with pytest.raises(ValueError, match="4 rack sizes for 8 edge switches"):
        fat_tree(4, [1, 2, 3, 4], 1, 1, 1)
    with pytest.raises(ValueError, match="even"):
        fat_tree(3, 1, 1, 1, 1)


def test_a_large_fat_tree_is_planned_in_moments():
    began = time.process_time()
    fabric = fat_tree(32, 16, 1e9, 1e9, 9000)
    assert len(fabric.hosts) == 8192
    for host in fabric.hosts[::97]:
        for switch in fabric.switches[::13]:
            fabric.next_hops(switch, host)
    assert time.process_time() - began < 5


def triangle():
    """GRID's worked example (Fig. 1)."""
    switches = {"S1": ["W1", "W2", "W3", "W4"], "S2": ["W5", "W6"], "S3": ["W7", "W8", "PS"]}
    links = [("S1", "S2", 3e9), ("S1", "S3", 3e9), ("S2", "S3", 3e9), ("W8", "S3", 1e9)]
    return graph(switches, links, 9e9, 9000)


def test_a_graph_is_what_was_written():
    fabric = triangle()
    assert fabric.hosts == ("W1", "W2", "W3", "W4", "W5", "W6", "W7", "W8", "PS")
    assert fabric.tors == fabric.switches == ("S1", "S2", "S3")
    assert fabric.tor_of("PS") == "S3"
    assert fabric.link("S1", "S3").rate == 3e9
    assert fabric.link("PS", "S3").rate == 9e9
    assert fabric.link("W8", "S3").rate == 1e9
    assert fabric.next_hops("S1", "PS") == ("S3",)
    bare = graph({"S1": ["a"], "X": [], "S2": ["b"]}, [("S1", "X", 1), ("X", "S2", 1)], 1, 1)
    assert (bare.nodes["X"].kind, bare.nodes["S2"].rack) == (Kind.SPINE, 1)


@pytest.mark.parametrize(
    ("links", "wrong"),
    [
        ([], "not connected"),
        ([("S1", "S2", 1), ("S3", "S1", 1)], "links to S3"),
        ([("S1", "S2", 1), ("a", "S2", 1)], "a host has more links"),
    ],
)
def test_a_graph_that_is_none_is_refused(links, wrong):
    with pytest.raises(ValueError, match=wrong):
        graph({"S1": ["a"], "S2": ["b"]}, links, 1, 1)


def test_where_no_way_leads_there_is_no_next_hop():
    nodes = {name: Node(name, Kind.SPINE) for name in "abc"}
    fabric = Fabric("apart", nodes, (Link("a", "b", 1, 1),))
    assert fabric.next_hops("a", "b") == ("b",)
    assert fabric.next_hops("c", "a") == fabric.next_hops("a", "c") == ()


def test_only_switches_aggregate():
    fabric = leaf_spine(1, 2, 2, 1, 1, 1)
    assert fabric.with_ina(["t1"]).ina == {"t1"}
    assert fabric.ina == frozenset()
    for unknown in ("h0", "t9"):
        with pytest.raises(KeyError, match=unknown):
            fabric.with_ina(["t0", unknown])


@given(fabrics)
def test_addresses_are_distinct_and_racks_have_their_prefix(fabric):
    addressing = Addressing(fabric)
    ips = [ipaddress.ip_address(addressing.ip(node)) for node in fabric.nodes]
    assert len({*ips}) == len({addressing.mac(node) for node in fabric.nodes}) == len(fabric.nodes)
    prefixes = {tor: ipaddress.ip_network(addressing.prefix(tor)) for tor in fabric.tors}
    for node, ip in zip(fabric.nodes, ips, strict=True):
        kind = fabric.nodes[node].kind
        home = {Kind.HOST: fabric.tor_of, Kind.TOR: str}.get(kind, lambda _: None)(node)
        assert [tor for tor in fabric.tors if ip in prefixes[tor]] == ([home] if home else [])
    # Addresses are local and unicast. Others are assigned by the IEEE, or are groups.
    assert all(addressing.mac(node) >> 40 == 0x02 for node in fabric.nodes)


@given(fabrics)
def test_ports_number_the_neighbours_from_one(fabric):
    addressing = Addressing(fabric)
    names = set()
    for node in fabric.nodes:
        neighbours = fabric.neighbours(node)
        ports = [addressing.port(node, neighbour) for neighbour in neighbours]
        assert sorted(ports) == list(range(1, len(neighbours) + 1))
        names |= {addressing.interface(node, neighbour) for neighbour in neighbours}
    assert len(names) == 2 * len(fabric.links)


def test_what_the_addresses_have_no_room_for_is_refused():
    Addressing(leaf_spine(1, 1, 254, 1, 1, 1))
    with pytest.raises(ValueError, match="t0: more than 254 hosts"):
        Addressing(leaf_spine(1, 1, 255, 1, 1, 1))
    with pytest.raises(ValueError, match="more than 254 racks"):
        Addressing(leaf_spine(1, 255, 1, 1, 1, 1))


def test_a_name_too_long_for_an_interface_is_refused():
    nodes = {
        name: Node(name, kind, 0)
        for name, kind in [("host12345", Kind.HOST), ("tor12345", Kind.TOR)]
    }
    fabric = Fabric("x", nodes, (Link("host12345", "tor12345", 1, 1),))
    with pytest.raises(ValueError, match=r"host12345-tor12345: too long .* \(at most 15\)"):
        Addressing(fabric)
