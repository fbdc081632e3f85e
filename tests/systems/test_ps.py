"""Parameter servers: on all machines with BytePS's shares, or on the job's own servers only."""

from __future__ import annotations

import pytest
from paces import pace

from testbed.plan.checker import check
from testbed.systems import Assignment, registry
from testbed.topology.builders import leaf_spine

PS = registry["ps"]
FABRIC = leaf_spine(1, 1, 20, 1e10, 1e10, 10**6)


def plan(workers, spare, **options):
    hosts = FABRIC.hosts
    job = Assignment(hosts[:workers], hosts[workers : workers + spare], PS.settle(options))
    made = PS.plan(job, FABRIC)
    check(made)
    return made


@pytest.mark.parametrize(("workers", "spare"), [(8, 0), (8, 1), (8, 4), (8, 7), (12, 1), (2, 1)])
def test_all_machines_take_as_long_as_byteps_says(workers, spare):
    n, k = workers, spare
    made = plan(n, k)
    assert made.hosts == FABRIC.hosts[: n + k] + FABRIC.hosts[:n]
    assert pace(made, FABRIC) == pytest.approx(2 * n * (n - 1) / (n * n + k * n - 2 * k), rel=0.01)


def test_as_many_spare_machines_as_workers_serve_alone():
    made = plan(8, 8)
    assert made.hosts == FABRIC.hosts[:16]
    assert pace(made, FABRIC) == pytest.approx(1, rel=0.01)


def test_a_single_server_is_the_incast():
    assert pace(plan(8, 1, servers="dedicated"), FABRIC) == pytest.approx(8, rel=0.01)


def test_workers_alone_serve_as_fast_as_a_ring():
    made = plan(8, 1, servers="colocated")
    assert set(made.hosts) == set(FABRIC.hosts[:8])
    assert pace(made, FABRIC) == pytest.approx(2 * 7 / 8, rel=0.01)


def test_servers_that_the_job_places_on_workers_hosts_stay_there():
    hosts = FABRIC.hosts
    made = PS.plan(Assignment(hosts[:8], hosts[:2], PS.settle({})), FABRIC)
    assert made.hosts == hosts[:8] + hosts[:2]
    assert made.shares is None


def test_without_any_server_named_a_dedicated_one_is_missed():
    with pytest.raises(ValueError, match="needs at least one server"):
        plan(4, 0, servers="dedicated")
