"""ATP with several servers: each sums its part of every bucket, on a tree of its own."""

from __future__ import annotations

import pytest

from testbed.plan import cost as model
from testbed.plan.checker import check
from testbed.systems import Assignment, registry
from testbed.topology.builders import leaf_spine

RATE = 1e10
BARE = leaf_spine(2, 4, (4, 4, 4, 4), RATE, 4 * RATE, 256_000)
WORKERS = tuple(host for host in BARE.hosts if host not in BARE.hosts[3::4])


def atp(fabric, servers, workers=WORKERS):
    return registry["atp"].plan(Assignment(workers, BARE.hosts[3::4][:servers]), fabric)


@pytest.mark.parametrize("ina", [(), BARE.tors[:2], BARE.tors])
@pytest.mark.parametrize("servers", [1, 2, 4])
def test_every_server_is_the_root_of_its_own_tree(ina, servers):
    plan = atp(BARE.with_ina(ina), servers)
    check(plan)
    assert [tree.root for tree in plan.trees] == list(plan.hosts[plan.workers :])
    assert [tree.root_rank for tree in plan.trees] == [*range(12, 12 + servers)]
    assert all(set(tree.switches) <= set(ina) for tree in plan.trees)


@pytest.mark.parametrize("servers", [2, 3, 4])
def test_without_ina_the_incast_is_divided_among_the_servers(servers):
    one, several = (model.seconds_per_byte(atp(BARE, each), BARE) for each in (1, servers))
    assert several == pytest.approx(one / servers)


def test_a_server_that_is_a_worker_is_refused():
    with pytest.raises(ValueError, match="the server h3 is a worker too"):
        atp(BARE, 2, BARE.hosts[:8])
