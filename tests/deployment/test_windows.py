"""Default windows: shares of queues and of switch memory."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

import pytest

from testbed.deployment.memory import allocate
from testbed.deployment.windows import OF_MESSAGES, window
from testbed.plan.program import Plan
from testbed.plan.trees import Tree
from testbed.protocols.atp.protocol import PROTOCOL as ATP
from testbed.protocols.netreduce.protocol import PROTOCOL as NETREDUCE
from testbed.protocols.switchml.protocol import PROTOCOL as SWITCHML
from testbed.topology.builders import leaf_spine
from testbed.topology.framing import framing

FRAME = 1090
LINK_S = FRAME * 8 / 1e10


def plan(tree):
    return Plan("toy", ("h0", "h1"), 2, 1, ((), ()), (tree,))


def star(root, protocol=SWITCHML, root_rank=None):
    """A tree whose two members are next to its root."""
    return Tree(root, {"h0": 0, "h1": 1}, {"h0": root, "h1": root}, protocol, root_rank)


@pytest.mark.parametrize(("slots", "cut"), [(4096, False), (16, True)])
def test_a_window_that_memory_cuts_is_said(slots, cut):
    fabric = replace(leaf_spine(1, 1, 2, 1e10, 1e10, 256_000).with_ina(["t0"]), slots=slots)
    free = window(plan(star("t0")), replace(fabric, slots=4096), {})
    found = window(plan(star("t0")), fabric, {})
    assert found.fragments == (slots // 2 if cut else free.fragments)
    assert found.cut_from == (free.fragments if cut else 0)


def test_a_window_that_is_asked_for_is_not_cut():
    fabric = replace(leaf_spine(1, 1, 2, 1e10, 1e10, 256_000).with_ina(["t0"]), slots=16)
    assert window(plan(star("t0")), fabric, {"window": 4}).cut_from == 0


@pytest.mark.parametrize("protocol", [ATP, SWITCHML], ids=lambda each: each.name)
def test_slots_do_not_matter_where_no_switch_sums(protocol):
    """A tree from hosts to a host."""
    fabric = leaf_spine(1, 1, 3, 1e10, 1e10, 256_000)
    alone = plan(star("h2", protocol, root_rank=2))
    found = [window(alone, replace(fabric, slots=slots), {}) for slots in (4, 4096)]
    assert found[0] == found[1]
    assert found[0].fragments > 4
    ((own,),) = allocate([(alone, found[0])], 4)
    assert own.slots >= found[0].fragments


def racks(count, protocol, **changes):
    """A worker in each rack, the racks below one spine, and the first ToR as the root."""
    fabric = replace(leaf_spine(1, count, 1, 1e10, 1e10, 64_000), **changes)
    tors = {f"h{rack}": f"t{rack}" for rack in range(count)}
    parent = tors | {tor: "t0" for tor in tors.values() if tor != "t0"}
    tree = Tree("t0", {host: rank for rank, host in enumerate(tors)}, parent, protocol)
    return plan(tree), fabric.with_ina(tors.values())


@pytest.mark.parametrize(
    ("delay", "wanted"),
    [
        (LINK_S, 2 * 3 * 2 / 7 + 2),  # three links up, three down; seven streams share the busiest
        (5 * LINK_S, 2 * 3 * 6 / 7 + 2),
        (1e-3, 64_000 // (FRAME * 7)),  # the whole queue, but no more
    ],
)
def test_a_default_window_is_enough_for_a_round_trip(delay, wanted):
    made, fabric = racks(8, SWITCHML, link_delay=delay)
    assert framing(fabric).frame == FRAME
    assert 64_000 // 2 // (FRAME * 7) == 4, "half of the queue is too little"
    assert window(made, fabric, {}).fragments == ceil(wanted)


def test_a_window_of_messages_is_larger():
    made, fabric = racks(8, NETREDUCE, link_delay=LINK_S)
    found = window(made, fabric, {"window": 2})
    wanted = OF_MESSAGES * (2 * 3 * 2 / 7 + 2)
    assert found.fragments == min(64_000 // (FRAME * 7), ceil(wanted)) == 2 * found.message


def test_messages_are_as_large_as_asked_for():
    made, fabric = racks(8, NETREDUCE, link_delay=LINK_S)
    found = window(made, fabric, {"window": 2, "message": 170})
    assert (found.fragments, found.message) == (340, 170)
