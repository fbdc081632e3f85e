"""The closed form against the textbook's formulas, headers aside."""

from __future__ import annotations

import pytest

from testbed import model
from testbed.dataplane import wire
from testbed.systems import Assignment, registry
from testbed.topology.builders import leaf_spine

RATE = 1e9
TCP = 1 / wire.TCP_EFFICIENCY
INA = 1 / wire.INA_EFFICIENCY


def pace(system: str, workers: int, ina=(), servers: int = 0, fabric_rate: float = 1e10) -> float:
    """Time per byte in units of one byte at the hosts' rate."""
    fabric = leaf_spine(2, 3, 4, RATE, fabric_rate, 10**6).with_ina(ina)
    hosts = fabric.hosts
    placement = Assignment(hosts[:workers], hosts[len(hosts) - servers :] if servers else ())
    return model.seconds_per_byte(registry[system].plan(placement, fabric), fabric) * RATE / 8


def test_one_parameter_server_pays_for_every_worker():
    assert pace("ps", 8, servers=1) == pytest.approx(8 * (TCP + wire.TCP_ACK_SHARE))


def test_servers_share_the_load_until_the_workers_own_link_binds():
    assert pace("ps", 8, servers=2) == pytest.approx(4 * (TCP + wire.TCP_ACK_SHARE))


def test_a_ring_sends_nearly_twice_the_gradient():
    assert pace("ring", 8) == pytest.approx(2 * 7 / 8 * (TCP + wire.TCP_ACK_SHARE))


def test_full_aggregation_takes_the_gradient_once():
    assert pace("atp", 8, ina=("t0", "t1", "t2"), servers=1) == pytest.approx(INA)


@pytest.mark.parametrize(
    ("ina", "streams"), [((), 8), (("t0",), 5), (("t0", "t1"), 2), (("t2",), 1)]
)
def test_partial_aggregation_leaves_as_many_streams_as_the_server_sees(ina, streams):
    assert pace("atp", 8, ina=ina, servers=1) == pytest.approx(streams * INA)


def test_a_narrow_core_binds():
    # Eight streams share two spines of a quarter of the hosts' rate each.
    assert pace("atp", 8, servers=1, fabric_rate=RATE / 4) == pytest.approx(16 * INA)


def test_iteration_hides_what_compute_covers():
    fabric = leaf_spine(1, 1, 4, RATE, RATE, 10**6)
    plan = registry["ring"].plan(Assignment(fabric.hosts), fabric)
    per_byte = model.seconds_per_byte(plan, fabric)
    size = 0.1 / per_byte
    hidden = model.iteration(plan, fabric, [(0.5, size), (0.8, size)], compute_s=1.0)
    assert hidden.exposed_s == pytest.approx(0)
    exposed = model.iteration(plan, fabric, [(0.5, size), (1.0, size)], compute_s=1.0)
    assert exposed.exposed_s == pytest.approx(0.1)
    queued = model.iteration(plan, fabric, [(0.95, size), (1.0, size)], compute_s=1.0)
    assert queued.iteration_s == pytest.approx(1.15)
