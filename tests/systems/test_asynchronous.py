"""ASP, SSP and R2SP: plans of updates, and how long their iterations are."""

from __future__ import annotations

import pytest

from testbed import model
from testbed.dataplane import wire
from testbed.plan.checker import check
from testbed.plan.program import Consistency
from testbed.systems import Assignment, registry
from testbed.topology.builders import leaf_spine

RATE = 1e10
FABRIC = leaf_spine(2, 2, 8, RATE, RATE, 256_000)
NAMES = ("asp", "ssp", "r2sp")
STREAM = (1 / wire.TCP_EFFICIENCY + wire.TCP_ACK_SHARE) * 8 / RATE
"""Seconds per byte of a stream each way."""


def planned(name, workers=8, servers=1, **options):
    system = registry[name]
    hosts = FABRIC.hosts
    job = Assignment(hosts[:workers], hosts[len(hosts) - servers :], system.settle(options))
    return system.plan(job, FABRIC)


@pytest.mark.parametrize("name", NAMES)
def test_servers_share_the_parameters(name):
    plan = planned(name, servers=3)
    check(plan)
    assert {(op.chunk, op.server) for op in plan.programs[5]} == {(0, 8), (1, 9), (2, 10)}
    assert plan.programs[8:] == ((), (), ())


def test_each_is_bound_in_its_own_way():
    assert planned("asp").consistency == Consistency()
    assert planned("ssp", staleness=5).consistency == Consistency(staleness=5)
    assert planned("ssp").consistency == Consistency(staleness=3)
    assert planned("r2sp").consistency == Consistency(turns=True)


@pytest.mark.parametrize("wrong", [-1, 1.5, True, "many"])
def test_staleness_is_a_whole_number(wrong):
    with pytest.raises(ValueError, match="a whole number of iterations, at least 0"):
        registry["ssp"].settle({"staleness": wrong})


@pytest.mark.parametrize("name", NAMES)
def test_without_a_server_they_say_so(name):
    with pytest.raises(ValueError, match=f"{name} needs at least one server"):
        registry[name].plan(Assignment(FABRIC.hosts[:2]), FABRIC)


@pytest.mark.parametrize("name", NAMES)
def test_a_round_loads_the_servers_link_as_ps_does(name):
    pace = model.seconds_per_byte(planned(name), FABRIC)
    assert pace == pytest.approx(8 * STREAM)
    assert pace == pytest.approx(model.seconds_per_byte(planned("ps"), FABRIC))


PIECES = [(0.2, 4e6)] * 25


def seconds(name, workers, compute_s=0.2):
    return model.iteration(planned(name, workers), FABRIC, PIECES, compute_s).iteration_s


@pytest.mark.parametrize("workers", [2, 4, 8])
@pytest.mark.parametrize("name", ["asp", "ssp"])
def test_equal_workers_that_begin_together_stay_together(name, workers):
    assert seconds(name, workers) == pytest.approx(seconds("ps", workers))
    assert seconds(name, workers) == pytest.approx(0.2 + workers * STREAM * 104e6)


def test_in_turns_each_has_the_server_to_itself_while_there_is_room():
    # Two workers: compute, then push and pull at the full rate.
    assert seconds("r2sp", 2) == pytest.approx(0.2 + STREAM * 104e6)


def test_in_turns_the_servers_link_is_always_busy_when_there_is_none():
    assert 0.2 + STREAM * 104e6 < 8 * STREAM * 100e6
    assert seconds("r2sp", 8) == pytest.approx(8 * STREAM * 100e6)
    assert seconds("r2sp", 8) < seconds("asp", 8)
