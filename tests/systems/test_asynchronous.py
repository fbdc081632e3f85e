"""ASP, SSP and R2SP: plans of updates, and the lengths of their iterations."""

from __future__ import annotations

import pytest

from testbed.plan import cost as model
from testbed.plan.checker import check
from testbed.plan.program import Consistency
from testbed.systems import Assignment, registry
from testbed.topology.builders import leaf_spine
from testbed.topology.framing import Framing

RATE = 1e10
FABRIC = leaf_spine(2, 2, 8, RATE, RATE, 256_000)
NAMES = ("asp", "ssp", "r2sp")
STREAM = (1 / Framing().tcp_efficiency + Framing().tcp_ack_share) * 8 / RATE
"""Seconds per byte, for a stream in each direction."""


def planned(name, workers=8, servers=1, **options):
    system = registry[name]
    hosts = FABRIC.hosts
    if name == "ps":
        options["servers"] = "dedicated"  # as the others have them
    job = Assignment(hosts[:workers], hosts[len(hosts) - servers :], system.settle(options))
    return system.plan(job, FABRIC)


@pytest.mark.parametrize("name", NAMES)
def test_servers_share_the_parameters(name):
    plan = planned(name, servers=3)
    check(plan)
    assert {(op.chunk, op.server) for op in plan.programs[5]} == {(0, 8), (1, 9), (2, 10)}
    assert plan.programs[8:] == ((), (), ())


@pytest.mark.parametrize("name", NAMES)
def test_pieces_are_those_of_ps(name):
    own, given = planned(name).pipelining, planned(name, partition=64_000, credit=0).pipelining
    assert own == planned("ps").pipelining
    assert (given.partition, given.credit) == (64_000, None)


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


def form(plan, pieces):
    return model.ClosedForm(plan, FABRIC).iteration(model.Timing(pieces, compute_s=0.2))


PIECES = [(0.2, 4e6)] * 25
ALONE = 0.2 + STREAM * 104e6
"""The length of an iteration alone: computation, then push and pull at the full rate; the pull of
the last partition is exposed."""


def expected(name, workers, **options):
    return form(planned(name, workers, **options), PIECES)


@pytest.mark.parametrize("workers", [1, 2, 8])
def test_a_barrier_is_what_ps_is(workers):
    found = expected("ssp", workers, staleness=0)
    assert found == expected("ps", workers)
    assert found.iteration_s == pytest.approx(0.2 + workers * STREAM * 104e6, rel=0.01)
    assert found.gap_s == 0


@pytest.mark.parametrize("name", NAMES)
def test_evenly_spaced_each_has_the_server_to_itself_while_there_is_room(name):
    for workers in (1, 2, 3):
        found = expected(name, workers)
        assert found.iteration_s == pytest.approx(ALONE, rel=0.01)
        assert found.exposed_s == pytest.approx(found.iteration_s - 0.2)
        assert found.gap_s == pytest.approx(found.iteration_s / workers)


@pytest.mark.parametrize("name", NAMES)
def test_the_servers_link_is_always_busy_when_there_is_no_room(name):
    assert 8 * STREAM * 100e6 > ALONE
    assert expected(name, 8).iteration_s == pytest.approx(8 * STREAM * 100e6)
    assert expected(name, 8).iteration_s < expected("ps", 8).iteration_s


@pytest.mark.parametrize("name", NAMES)
def test_an_iteration_is_no_shorter_than_compute(name):
    pieces = [(0.1, 1000.0)]
    found = form(planned(name, 3), pieces)
    assert found.iteration_s == 0.2 and found.exposed_s == 0


def test_only_turns_wait_for_the_last_gradient():
    pieces = [(0.1, 4e6), (0.2, 4e6)]
    last = {name: form(planned(name, 2), pieces).iteration_s for name in NAMES}
    assert last["asp"] == last["ssp"] == pytest.approx(0.2 + STREAM * 8e6, rel=0.01)
    assert last["r2sp"] == pytest.approx(0.2 + STREAM * 12e6, rel=0.01)
