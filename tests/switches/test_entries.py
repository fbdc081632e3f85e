"""Table entries of INA switches, followed step by step: every packet must reach its destination."""

from __future__ import annotations

import ipaddress

import pytest

from testbed.protocols.allocation import Allocation
from testbed.protocols.tables import Exact, Lpm
from testbed.switches.entries import derive
from testbed.systems import Assignment, registry
from testbed.systems.atp import tree as atp_tree
from testbed.topology.addressing import Addressing
from testbed.topology.builders import fat_tree, graph, leaf_spine

SHAPES = [(1, (2,)), (2, (3, 3)), (3, (5, 1, 2)), (2, (1, 4, 4, 2))]
FORWARDING = "InaIngress.forwarding"


class Switch:
    """Looks up packets in derived entries as the P4 program does."""

    def __init__(self, name, fabric, addressing, jobs=None):
        self.fabric, self.addressing, self.name = fabric, addressing, name
        derived = derive(name, fabric, addressing, jobs or [])
        self.entries, self.groups = derived.entries, derived.groups
        self.neighbours = fabric.neighbours(name)

    def table(self, name):
        return [entry for entry in self.entries if entry.table == name]

    def hops(self, ip):
        """All neighbours to which a packet to ``ip`` may be sent."""
        address = int(ipaddress.ip_address(ip))
        fitting = []
        for entry in self.table(f"{FORWARDING}.routes"):
            (lpm,) = entry.match
            assert isinstance(lpm, Lpm)
            if address >> (32 - lpm.prefix) == lpm.value >> (32 - lpm.prefix):
                fitting.append((lpm.prefix, entry))
        if not fitting:
            return []
        first, count, multiplier = max(fitting, key=lambda pair: pair[0])[1].params
        assert multiplier % 2 == 1
        chosen = [
            entry.params
            for index in range(first, first + count)
            for entry in self.table(f"{FORWARDING}.next_hops")
            if entry.match == (Exact(index),)
        ]
        assert len(chosen) == count
        hops = []
        for port, source, destination in chosen:
            hop = self.neighbours[port - 1]
            assert source == self.addressing.mac(self.name)
            assert destination == self.addressing.mac(hop)
            hops.append(hop)
        return hops

    def copies(self, group):
        """(neighbour, address) of each copy of a multicast group."""
        rewrites = {
            entry.match[0].value: entry.params
            for entry in self.table("InaEgress.replication.replicas")
        }
        copies = []
        for replica in self.groups[group]:
            ip, source, destination = rewrites[replica.rid]
            hop = self.neighbours[replica.port - 1]
            assert source == self.addressing.mac(self.name)
            assert destination == self.addressing.mac(hop)
            copies.append((hop, str(ipaddress.ip_address(ip))))
        return copies


def arrive(fabric, switches, addressing, at, to, left=8):
    """Assert that a packet from ``at`` reaches node ``to`` with every choice of ECMP."""
    if at == to:
        return
    assert left, f"a loop on the way to {to}"
    assert at in switches or at in fabric.switches, f"{at} is no switch on the way to {to}"
    hops = switches[at].hops(addressing.ip(to)) if at in switches else fabric.next_hops(at, to)
    assert hops, f"{at} knows no way to {to}"
    for hop in hops:
        arrive(fabric, switches, addressing, hop, to, left - 1)


FABRICS = [leaf_spine(spines, len(racks), racks, 1e10, 1e10, 100_000) for spines, racks in SHAPES]
FABRICS.append(fat_tree(4, [2, 1, 2, 2, 2, 0, 3, 2], 1e10, 1e10, 100_000))
FABRICS.append(
    graph(
        {"S1": ["W1", "W2"], "S2": ["W3"], "S3": ["W4", "PS"], "X": [], "Y": []},
        [
            (a, b, 1e10)
            for a, b in [("S1", "S2"), ("S2", "S3"), ("S1", "X"), ("X", "Y"), ("Y", "S3")]
        ],
        1e10,
        100_000,
    )
)


@pytest.mark.parametrize("fabric", FABRICS, ids=lambda fabric: fabric.name)
def test_routes_lead_to_every_host_and_switch(fabric):
    addressing = Addressing(fabric)
    switches = {name: Switch(name, fabric, addressing) for name in fabric.switches}
    for switch in fabric.switches:
        for to in fabric.nodes:
            arrive(fabric, switches, addressing, switch, to)


@pytest.mark.parametrize("fabric", FABRICS, ids=lambda fabric: fabric.name)
def test_routes_offer_every_shortest_path(fabric):
    addressing = Addressing(fabric)
    for name in fabric.switches:
        switch = Switch(name, fabric, addressing)
        for to in set(fabric.nodes) - {name}:
            assert sorted(switch.hops(addressing.ip(to))) == sorted(fabric.next_hops(name, to))


def test_all_uplinks_share_the_way_to_another_rack():
    fabric = leaf_spine(3, 2, 2, 1e10, 1e10, 100_000)
    addressing = Addressing(fabric)
    hops = Switch("t0", fabric, addressing).hops(addressing.ip("h3"))
    assert sorted(hops) == ["s0", "s1", "s2"]


def test_a_strange_address_has_no_route():
    fabric = leaf_spine(1, 2, 2, 1e10, 1e10, 100_000)
    switch = Switch("t0", fabric, Addressing(fabric))
    assert switch.hops("192.0.2.1") == []
    assert switch.hops("10.0.0.77") == []


def trees(fabric):
    """Two jobs of ATP on disjoint hosts, the second with its server in the first rack."""
    hosts = list(fabric.hosts)
    half = len(hosts) // 2
    places = [Assignment(tuple(hosts[: half - 1]), (hosts[-1],))]
    places.append(Assignment(tuple(hosts[half:-1]), (hosts[half - 1],)))
    return [
        Allocation(number, number, atp_tree(place, fabric), 0, 64)
        for number, place in enumerate(places)
    ]


@pytest.mark.parametrize(("spines", "racks"), [(2, (4, 4)), (3, (5, 1, 2)), (2, (3, 4, 4, 2))])
@pytest.mark.parametrize("chosen", [slice(0, 1), slice(None, None, 2), slice(None)], ids=str)
def test_sums_climb_and_results_reach_each_member_once(spines, racks, chosen):
    fabric = leaf_spine(spines, len(racks), racks, 1e10, 1e10, 100_000)
    fabric = fabric.with_ina(fabric.tors[chosen])
    addressing = Addressing(fabric)
    jobs = trees(fabric)
    inner = {name for each in jobs for name in each.tree.switches}
    switches = {name: Switch(name, fabric, addressing, jobs) for name in inner}
    by_ip = {addressing.ip(node): node for node in fabric.nodes}
    for each in jobs:
        tree = each.tree
        below = {}
        group_of = {}
        for name in tree.switches:
            own = int(ipaddress.ip_address(addressing.ip(name)))
            (entry,) = (
                entry
                for entry in switches[name].table("InaIngress.trees")
                if entry.match == (Exact(own), Exact(each.number))
            )
            style, job, members, total, above, parent, source, group_of[name], *rest = entry.params
            assert (style, job, source) == (1, each.job, own)
            assert (total, above) == (members, 0), "a bit is a worker at every level"
            first, slots, number, watch = rest
            assert (first, slots, number, watch) == (0, 64, 0, 1)
            below[name] = members
            up = by_ip[str(ipaddress.ip_address(parent))]
            assert up == tree.parent[name]
            arrive(fabric, switches, addressing, name, up)
        contributions = [
            below.get(child, 1 << tree.rank_of.get(child, 0)) for child in tree.children(tree.root)
        ]
        assert sum(contributions) == (1 << len(tree.rank_of)) - 1

        reached = []
        waiting = [child for child in tree.children(tree.root)]
        while waiting:
            node = waiting.pop()
            if node in tree.rank_of:
                reached.append(node)
                continue
            for hop, ip in switches[node].copies(group_of[node]):
                waiting.append(by_ip[ip])
                arrive(fabric, switches, addressing, hop, by_ip[ip])
        assert sorted(reached) == sorted(tree.rank_of)


def test_replicas_and_groups_of_two_jobs_do_not_meet():
    fabric = leaf_spine(1, 1, 8, 1e10, 1e10, 100_000).with_ina(["t0"])
    jobs = trees(fabric)
    entries = derive("t0", fabric, Addressing(fabric), jobs)
    rids = [replica.rid for replicas in entries.groups.values() for replica in replicas]
    assert len(entries.groups) == 2
    assert 0 not in entries.groups
    assert len(set(rids)) == len(rids)
    assert 0 not in rids


def test_nothing_is_forwarded_before_all_is_known_that_is_to_be_summed():
    """NetReduce's hosts address one another: a packet that is only forwarded is useless."""
    fabric = leaf_spine(1, 2, 3, 1e10, 1e10, 100_000).with_ina(["t0", "t1"])
    workers = fabric.hosts[:3]
    (tree,) = registry["netreduce"].plan(Assignment(workers), fabric).trees
    entries = derive("t0", fabric, Addressing(fabric), [Allocation(0, 0, tree, 0, 64)]).entries
    tables = [each.table for each in entries]
    assert tables.count("InaIngress.connections") == len(workers)
    routes = [i for i, table in enumerate(tables) if table.startswith("InaIngress.forwarding")]
    assert routes == list(range(routes[0], len(tables)))


def next_hops(fabric, name, table, allocations=(), routes=None):
    """The next hop of each key that has its own in a table of a switch."""
    entries = derive(name, fabric, Addressing(fabric), allocations, routes=routes).entries
    hops = {e.match[0].value: e.params[0] for e in entries if e.table == f"{FORWARDING}.next_hops"}
    return {
        tuple(part.value for part in entry.match): (
            fabric.neighbours(name)[hops[entry.params[0]] - 1]
        )
        for entry in entries
        if entry.table == f"{FORWARDING}.{table}"
    }


def told_apart(fabric, name, routes):
    """The next hop of each flow that has its own at a switch."""
    named = {Addressing(fabric).ip_number(node): node for node in fabric.nodes}
    found = next_hops(fabric, name, "flows", routes=routes)
    return {(named[source], named[to]): hop for (source, to), hop in found.items()}


def ways_up(fabric, name, allocations, routes=None):
    """The parent and the next hop of each tree's sums at a switch."""
    named = {Addressing(fabric).ip_number(node): node for node in fabric.nodes}
    found = next_hops(fabric, name, "sums", allocations, routes)
    return {tree: (named[parent], hop) for (tree, parent), hop in found.items()}


def test_flows_with_a_route_are_told_apart_where_other_paths_are_as_short():
    fabric = leaf_spine(2, 2, 2, 1e10, 1e10, 100_000)
    routes = {("h0", "h3"): ("h0", "t0", "s1", "t1", "h3"), ("h1", "t1"): ("h1", "t0", "s0", "t1")}
    assert told_apart(fabric, "t0", routes) == {("h0", "h3"): "s1", ("h1", "t1"): "s0"}
    assert told_apart(fabric, "t1", routes) == {}


def test_a_switchs_own_streams_take_their_routes():
    fabric = leaf_spine(2, 2, 2, 1e10, 1e10, 100_000).with_ina(["t0"])
    tree = atp_tree(Assignment(fabric.hosts[:2], fabric.hosts[3:]), fabric)
    allocations = [Allocation(0, 0, tree, 0, 64)]
    assert ways_up(fabric, "t0", allocations) == {0: ("h3", "s0")}
    routes = {("t0", "h3"): ("t0", "s1", "t1", "h3")}
    assert ways_up(fabric, "t0", allocations, routes) == {0: ("h3", "s1")}


def test_sums_of_trees_with_the_same_nodes_take_the_links_of_their_trees():
    fabric = leaf_spine(2, 2, 4, 1e10, 1e10, 100_000).with_ina(["t0", "t1"])
    workers = ("h0", "h1", "h4", "h5")
    plan = registry["atp"].plan(Assignment(workers, ("h6", "h7")), fabric)
    allocations = [Allocation(i, 0, tree, 0, 64) for i, tree in enumerate(plan.trees)]
    assert ways_up(fabric, "t0", allocations) == {0: ("t1", "s0"), 1: ("t1", "s1")}


def test_copies_take_their_own_trees_links():
    """Also where another tree's sums go to the same switch."""
    fabric = leaf_spine(2, 4, 3, 1e10, 1e10, 100_000).with_ina(["t0", "t1", "t2"])
    plan = registry["rina"].plan(Assignment(fabric.hosts, options={"groups": "always"}), fabric)
    allocations = [Allocation(i, 0, tree, 0, 64) for i, tree in enumerate(plan.trees)]
    both_ways = 0
    for name in ("t0", "t1", "t2"):
        joined = [each.tree for each in allocations if name in each.tree.switches]
        entries = derive(name, fabric, Addressing(fabric), allocations)
        for tree, replicas in zip(joined, entries.groups.values(), strict=True):
            for child, replica in zip(tree.children(name), replicas, strict=True):
                hops = fabric.next_hops(name, child)
                own = tree.hop(child, hops, True)
                assert fabric.neighbours(name)[replica.port - 1] == own
                upwards = [each for each in joined if each.parent.get(name) == child]
                both_ways += any(each.hop(name, hops, False) != own for each in upwards)
    assert both_ways


def test_switches_and_seeds_hash_differently():
    fabric = leaf_spine(2, 2, 1, 1e10, 1e10, 100_000)

    def multipliers(switch, seed):
        entries = derive(switch, fabric, Addressing(fabric), [], seed).entries
        return {entry.params[2] for entry in entries if entry.table == f"{FORWARDING}.routes"}

    assert len(multipliers("t0", 1)) == 1
    assert len({*multipliers("t0", 1), *multipliers("t1", 1), *multipliers("t0", 2)}) == 3
