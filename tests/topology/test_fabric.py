"""Fabrics: their shape, and that following next hops leads where it shall."""

from __future__ import annotations

import ipaddress

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.topology.addressing import Addressing
from testbed.topology.builders import leaf_spine
from testbed.topology.fabric import Fabric, Kind, Link, Node

racks = st.lists(st.integers(0, 5), min_size=1, max_size=5).filter(any)
fabrics = st.builds(
    lambda spines, racks: leaf_spine(spines, len(racks), racks, 1e9, 4e9, 9000),
    st.integers(1, 4),
    racks,
)


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
    """Every way that next hops allow, each as long as it is until it arrives."""
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
    forwarding = fabric.graph.subgraph([*fabric.switches, source, destination])
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
        home = {Kind.HOST: fabric.tor_of, Kind.TOR: str, Kind.SPINE: lambda _: None}[kind](node)
        assert [tor for tor in fabric.tors if ip in prefixes[tor]] == ([home] if home else [])
    # Group and universal addresses are not ours to give.
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
    with pytest.raises(ValueError, match=r"host12345-tor12345: longer than .* \(15\)"):
        Addressing(fabric)
