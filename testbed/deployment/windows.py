"""What a job's senders may have in flight: shares of port queues and of switch memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import ceil
from typing import Any

from testbed.plan.program import Plan
from testbed.plan.trees import Tree
from testbed.plan.units import Unit
from testbed.protocols import protocol_of
from testbed.protocols.allocation import Window
from testbed.topology.fabric import Fabric
from testbed.topology.framing import framing
from testbed.topology.paths import EvenPaths, Link

LARGEST_WINDOW = 256

OF_MESSAGES = 3
"""How much larger a window of messages is than one of packets, if a round trip decides it. Measured
with NetReduce on 32 racks (evaluation-k8): with 2 a job took 1.04 times its closed form."""


def window(plan: Plan, fabric: Fabric, options: Mapping[str, Any]) -> Window:
    """The window of the job's options, or what queues and memory have room for.

    That is a fair share of half a port's queue for all streams that may meet there, or of a whole
    one as far as a round trip needs it. ECMP may put a flow on any link of its paths, so a stream
    counts on all of them. Whether a switch's memory is large enough is known only with the windows
    of all jobs (`memory.allocate`).
    """
    if not plan.trees:
        return Window(0)
    streams: Counter[Link] = Counter()
    paths = EvenPaths(fabric)
    for tree in plan.trees:
        for child, parent in tree.parent.items():
            streams.update(paths.shares(child, parent).keys())
    frame = framing(fabric).frame
    room = min(fabric.link(*ends).queue // (frame * count) for ends, count in streams.items())
    busiest = max(plan.trees, key=lambda tree: tree.streams)
    protocol = protocol_of(busiest)
    needed = _needed(plan.trees, fabric, paths)
    # A message leaves when a whole other one is back, and its packets arrive in a bunch.
    needed *= OF_MESSAGES if protocol.window(options, 2)[1] else 1
    queued = max(2, min(room // 2, LARGEST_WINDOW), min(room, ceil(needed)))
    sums = any(tree.switches for tree in plan.trees)
    fair = cut(plan, queued, fabric.slots) if sums else queued
    rate = min(fabric.link(*ends).rate for ends in streams)
    fragments, message = protocol.window(options, fair)
    drain_s = fragments * busiest.streams * frame * 8 / rate
    return Window(fragments, message, drain_s, queued if fragments == fair < queued else 0)


def cut(plan: Plan, queued: int, slots: int) -> int:
    """The fragments of a default window if queues hold ``queued`` and switches have ``slots``."""
    # A pool has two versions of each slot, and every such tree at a switch has a pool of its own.
    pools = Counter(
        switch for tree in plan.trees if protocol_of(tree).own_slots(1) for switch in tree.switches
    )
    return max(2, min(queued, slots // (2 * max(pools.values(), default=1))))


def _needed(trees: Sequence[Tree], fabric: Fabric, paths: EvenPaths) -> float:
    """The fragments that a stream needs in flight, so that it never waits for sums while the
    busiest link could take its packets.

    Besides the way to the root and back, a packet waits for those of all other streams there, in
    both directions, if all arrive at the same time.
    """
    bits = framing(fabric).frame * 8
    busy: dict[Link, float] = {}  # seconds that a fragment of all streams takes
    rises: dict[tuple[str, str], float] = {}  # seconds from a child to its parent
    for tree in trees:
        for child, parent in tree.parent.items():
            rise = 0.0
            for link, share in paths.shares(child, parent).items():
                sending = bits / fabric.link(*link).rate
                busy[link] = busy.get(link, 0.0) + share * sending
                rise += share * (sending + fabric.link_delay + fabric.pipeline_latency)
            rises[child, parent] = rise
    longest = max(_rise(tree, host, rises) for tree in trees for host in tree.rank_of)
    return 2 * longest / max(busy.values()) + 2


def _rise(tree: Tree, node: str, rises: Mapping[tuple[str, str], float]) -> float:
    """Seconds from a node to the root of its tree, for a packet that never waits."""
    total = 0.0
    while node in tree.parent:
        total += rises[node, tree.parent[node]]
        node = tree.parent[node]
    return total


def sent(plan: Plan, units: Sequence[Unit], window: Window, fabric: Fabric, union: float) -> float:
    """The part of the packets of ``units`` that the plan's trees carry. ``union`` is the share of
    the packets, or of the values, that are not zero at some worker; each protocol has its own
    rule."""
    protocol = protocol_of(plan.trees[0]) if plan.trees else None
    if protocol is None or not protocol.skips_zeros:
        return 1.0
    whole = carried = 0.0
    for unit in units:
        cuts = plan.cuts(unit.elements, fabric.values)
        for first, last in pairwise(cuts):
            packets = -(-(last - first) // fabric.values)
            whole += packets
            carried += protocol.carried(packets, window.fragments, fabric.values, union)
    return carried / whole if whole else 1.0
