"""ZeRO: each worker owns a shard, and switches halve what a ring carries."""

from __future__ import annotations

import pytest

from testbed.plan import cost as model
from testbed.plan.checker import check
from testbed.plan.program import Multicast, SwitchReduce
from testbed.systems import Assignment, registry
from testbed.topology.builders import leaf_spine
from testbed.topology.framing import framing

ZERO = registry["zero-dp"]
BARE = leaf_spine(2, 3, 4, 1e10, 1e10, 10**6)


def planned(fabric, **options):
    made = ZERO.plan(Assignment(fabric.hosts, (), ZERO.settle(options)), fabric)
    check(made)
    return made


def test_every_worker_sums_its_shard_and_sends_it_to_all_others():
    made = planned(BARE.with_ina(BARE.tors))
    for owner in made.ranks:
        own = [op for op in made.programs[0] if op.chunk == owner]
        assert [type(op) for op in own] == [SwitchReduce, Multicast]
        for operation in own:
            tree = made.trees[operation.tree]
            assert (tree.root_rank, tree.root) == (owner, made.hosts[owner])
            assert set(tree.rank_of.values()) == set(made.ranks) - {owner}
            assert tree.streams == 1  # the owner's ToR sums all that comes


def test_with_switches_a_worker_sends_and_receives_the_gradient_once():
    rack = leaf_spine(1, 1, 16, 1e10, 1e10, 10**6)
    on_trees = model.seconds_per_byte(planned(rack.with_ina(["t0"])), rack) * 1e10 / 8
    ring = model.seconds_per_byte(planned(rack), rack) * 1e10 / 8
    packets = framing(rack)
    assert on_trees * packets.ina_efficiency == pytest.approx(1, rel=0.1)
    assert ring * packets.tcp_efficiency == pytest.approx(2 * 15 / 16, rel=0.05)


@pytest.mark.parametrize(
    ("asked", "system"), [("ring", "ring"), ("hierarchical", "hierarchical-ring")]
)
def test_rings_are_those_of_the_systems(asked, system):
    fabric = BARE.with_ina(BARE.tors)
    rings = registry[system].plan(Assignment(fabric.hosts), fabric)
    made = planned(fabric, collectives=asked)
    assert made.programs == rings.programs
    assert not made.trees
