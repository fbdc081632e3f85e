"""The closed form compared with textbook formulas, apart from headers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from testbed.plan import cost as model
from testbed.systems import Assignment, registry
from testbed.topology.builders import leaf_spine
from testbed.topology.framing import Framing

RATE = 1e9
FRAMING = Framing()
TCP = 1 / FRAMING.tcp_efficiency + FRAMING.tcp_ack_share
"""A stream's load on a link that also carries acknowledgements of a stream in the opposite
direction."""

INA = 1 / FRAMING.ina_efficiency
BY_AGENTS = {"reading": "agent", "groups": "always"}


def plan_of(system: str, fabric, workers: int, servers: int = 0, **options):
    hosts = fabric.hosts
    only_servers = {"ps": {"servers": "dedicated"}, "switchml": {"without_ina": "server"}}
    job = Assignment(
        hosts[:workers],
        hosts[len(hosts) - servers :] if servers else (),
        options=only_servers.get(system, {}) | options,
    )
    return registry[system].plan(job, fabric)


def pace(
    system: str, workers: int, ina=(), servers: int = 0, fabric_rate: float = 1e10, **options
) -> float:
    """Time per byte in units of one byte at the hosts' rate."""
    fabric = leaf_spine(2, 3, 4, RATE, fabric_rate, 10**6).with_ina(ina)
    plan = plan_of(system, fabric, workers, servers, **options)
    return model.seconds_per_byte(plan, fabric) * RATE / 8


def alone(system: str, fabric, workers: int, step_s: float = 0.0, **options) -> float:
    """Seconds for a bucket that takes a second at the hosts' rate, without headers."""
    plan = plan_of(system, fabric, workers, **options)
    return iteration(plan, fabric, [(0.0, RATE / 8)], step_s=step_s).iteration_s


def iteration(plan, fabric, pieces, compute_s: float = 0.0, step_s: float = 0.0, **others):
    return model.ClosedForm(plan, fabric, step_s).iteration(
        model.Timing(pieces, compute_s, **others)
    )


def test_one_parameter_server_pays_for_every_worker():
    assert pace("ps", 8, servers=1) == pytest.approx(8 * TCP)


def test_servers_share_the_load_until_the_workers_own_link_binds():
    assert pace("ps", 8, servers=2) == pytest.approx(4 * TCP)
    assert pace("ps", 2, servers=4) == pytest.approx(TCP)


def test_a_ring_sends_nearly_twice_the_gradient():
    assert pace("ring", 8) == pytest.approx(2 * 7 / 8 * TCP)


def test_full_aggregation_takes_the_gradient_once():
    for system, servers in (("atp", 1), ("switchml", 1), ("netreduce", 0)):
        assert pace(system, 8, ("t0", "t1", "t2"), servers) == pytest.approx(INA), system
    assert pace("switchml", 4, ("t0",), servers=1) == pytest.approx(INA)
    assert pace("rina", 4, ("t0",)) == pytest.approx(INA)


@pytest.mark.parametrize(
    ("ina", "streams"), [((), 8), (("t0",), 5), (("t0", "t1"), 2), (("t2",), 1)]
)
def test_partial_aggregation_leaves_as_many_streams_as_the_server_sees(ina, streams):
    assert pace("atp", 8, ina=ina, servers=1) == pytest.approx(streams * INA)


@pytest.mark.parametrize(("system", "options"), [("atp", {}), ("switchml", {"root": "server"})])
def test_the_first_ina_tors_help_little(system, options):
    """Four racks of four: a server gets N - sum(n_r - 1) streams, n_r workers in INA rack r."""
    bare = leaf_spine(2, 5, 4, RATE, 1e10, 10**6)
    paces = [
        model.seconds_per_byte(plan_of(system, fabric, 16, 1, **options), fabric) * RATE / 8
        for fabric in (bare.with_ina(bare.tors[:count]) for count in range(4))
    ]
    assert paces == pytest.approx([16 * INA, 13 * INA, 10 * INA, 7 * INA])


@pytest.mark.parametrize(("ina", "groups"), [((), 12), (("t0",), 9), (("t0", "t1", "t2"), 3)])
def test_rina_pays_for_its_groups_by_agents(ina, groups):
    """2(G-1)/G of the gradient, and 1/G more for the chunk that ends in an INA rack."""
    around = 2 * (groups - 1) / groups
    if groups == 12:
        assert pace("rina", 12) == pytest.approx(around * TCP)
    else:
        # Receipts are sent if no sum returns; TCP segments are larger than INA packets.
        most = around * (INA + FRAMING.ina_ack_share) + INA / groups
        assert around * TCP + INA / groups < pace("rina", 12, ina, **BY_AGENTS) <= most + 1e-9
    if groups == 3:
        assert pace("rina", 12, ina, **BY_AGENTS) == pytest.approx(most)


def test_a_narrow_core_binds():
    # Eight streams share two spines of a quarter of the hosts' rate each.
    assert pace("atp", 8, servers=1, fabric_rate=RATE / 4) == pytest.approx(16 * INA)


@pytest.mark.parametrize("narrow", [1, 2, 4])
def test_stages_of_a_hierarchy_of_rings_overlap(narrow):
    """If stages wait for one another, they take 2(n-1)/n M/B within racks plus 2(H-1)/H M/nB'
    across, where B' is a worker's share of the uplinks. The busiest link gives the lower bound.
    """
    n, racks = 4, 3
    across = RATE / narrow  # both uplinks of a rack together
    fabric = leaf_spine(2, racks, n, RATE, across / 2, 10**6)
    within, between = 2 * (n - 1) / n, 2 * (racks - 1) / racks
    waiting = (within + between * RATE / across) * TCP
    busiest = max(within + between / n, between * RATE / across) * TCP
    found = alone("hierarchical-ring", fabric, n * racks)
    assert busiest - 1e-9 <= found < 0.97 * waiting
    # The steps of one chunk are a lower bound, however small it is.
    chain = 2 * (n - 1) + 2 * (racks - 1)
    assert chain < alone("hierarchical-ring", fabric, n * racks, step_s=1.0) < chain + waiting


def test_a_ring_pays_the_latency_of_its_chain():
    """2(N-1) (latency + M/NB)."""
    fabric = leaf_spine(2, 3, 4, RATE, RATE, 10**6)
    assert alone("ring", fabric, 12, 0.5) == pytest.approx(22 * (0.5 + TCP / 12))


@pytest.mark.parametrize("groups", [1, 2, 3])
def test_rina_by_agents_pays_a_shorter_chain(groups):
    """(2(G-1)+1) (latency + M/GB), without receipts."""
    fabric = leaf_spine(2, 3, 4, RATE, RATE, 10**6).with_ina(["t0", "t1", "t2"])
    chain = 2 * (groups - 1) + 1
    receipts = 2 * (groups - 1) / groups * FRAMING.ina_ack_share
    found = alone("rina", fabric, 4 * groups, 0.5, **BY_AGENTS)
    assert found == pytest.approx(chain * (0.5 + INA / groups) + receipts)


def test_rina_by_streams_pays_the_gradient_once_where_all_aggregate():
    fabric = leaf_spine(2, 3, 4, RATE, RATE, 10**6).with_ina(["t0", "t1", "t2"])
    assert alone("rina", fabric, 12, 0.5) == pytest.approx(0.5 + INA)


@pytest.mark.parametrize(("ina", "positions"), [(("t0",), 9), (("t0", "t1"), 5), (("t0", "t2"), 5)])
def test_rina_by_streams_pays_for_its_positions(ina, positions):
    """2(P-1)/P of the gradient, and receipts: adjacent racks are one position."""
    around = 2 * (positions - 1) / positions
    found = pace("rina", 12, ina, groups="always")
    assert around * INA < found <= around * (INA + FRAMING.ina_ack_share) + 1e-9


@pytest.mark.parametrize("system", ["switchml", "netreduce"])
def test_aggregation_on_the_way_is_one_step(system):
    fabric = leaf_spine(2, 3, 4, RATE, RATE, 10**6).with_ina(["t0", "t1", "t2"])
    assert alone(system, fabric, 12, 0.5) == pytest.approx(0.5 + INA)


@pytest.mark.parametrize(
    ("sizes", "end"), [((1, 1), 3), ((2, 1), 5), ((1, 2), 5), ((1, 3, 1), 8)], ids=str
)
def test_push_and_pull_are_a_line_of_two_machines(sizes, end):
    fabric = leaf_spine(1, 1, 3, RATE, RATE, 10**6)
    plan = plan_of("ps", fabric, 2, servers=1)
    second = 1 / model.seconds_per_byte(plan, fabric)
    pieces = [(0.0, size * second) for size in sizes]
    assert iteration(plan, fabric, pieces).iteration_s == pytest.approx(end, rel=0.03)


def test_chains_of_buckets_run_side_by_side():
    fabric = leaf_spine(1, 1, 4, RATE, RATE, 10**6)
    plan = plan_of("ring", fabric, 4)
    second = 1 / model.seconds_per_byte(plan, fabric)
    pieces = [(0.0, second), (0.0, second)]
    assert iteration(plan, fabric, pieces, step_s=0.1).iteration_s == pytest.approx(2.6)


def test_iteration_hides_what_compute_covers():
    fabric = leaf_spine(1, 1, 4, RATE, RATE, 10**6)
    plan = registry["ring"].plan(Assignment(fabric.hosts), fabric)
    per_byte = model.seconds_per_byte(plan, fabric)
    size = 0.1 / per_byte
    hidden = iteration(plan, fabric, [(0.5, size), (0.8, size)], compute_s=1.0)
    assert hidden.exposed_s == pytest.approx(0)
    exposed = iteration(plan, fabric, [(0.5, size), (1.0, size)], compute_s=1.0)
    assert exposed.exposed_s == pytest.approx(0.1)
    queued = iteration(plan, fabric, [(0.95, size), (1.0, size)], compute_s=1.0)
    assert queued.iteration_s == pytest.approx(1.15)


def test_a_switch_aggregates_no_more_than_it_can():
    fabric = leaf_spine(2, 2, 4, RATE, RATE, 10**6).with_ina(["t0", "t1"])
    slow = replace(fabric, capacity={"t0": RATE, "t1": RATE})
    plan = plan_of("switchml", slow, 7, servers=1)
    # The root sums its own four workers' gradients, and the other rack's sum.
    assert model.seconds_per_byte(plan, slow) * RATE / 8 == pytest.approx(5)
    assert model.seconds_per_byte(plan, fabric) * RATE / 8 == pytest.approx(INA)


def test_a_routed_flow_takes_its_path():
    fabric = leaf_spine(2, 3, 1, RATE, RATE, 10**6)
    routes = {("h0", "h2"): ("h0", "t0", "s1", "t2", "h2")}
    plan = replace(plan_of("ps", fabric, 2, servers=1), routes=routes)
    loads = model.link_loads(plan, fabric)
    assert loads["t0", "s1"] == pytest.approx(TCP)  # the push, and the pull's acknowledgements
    assert ("t0", "s0") not in loads
    assert loads["s1", "t2"] == pytest.approx(1.5 * TCP)  # and half of the other worker's, by ECMP


def test_a_link_that_carries_more_than_its_even_share_sets_the_pace():
    fabric = leaf_spine(2, 2, 2, 1e10, 1e10, 10**6)
    plan = registry["ring"].plan(Assignment(fabric.hosts, ()), fabric)
    even = model.seconds_per_byte(plan, fabric)
    pieces = [(0.0, 1e6)] * 4
    alone = iteration(plan, fabric, pieces).iteration_s
    assert iteration(plan, fabric, pieces, least_pace=even / 2).iteration_s == alone
    crowded = iteration(plan, fabric, pieces, least_pace=2 * even).iteration_s
    assert crowded == pytest.approx(2 * even * 4e6)
