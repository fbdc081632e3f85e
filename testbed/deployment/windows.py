"""What a job's senders may have in flight: shares of port queues and of switch memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from testbed.deployment.errors import DeploymentError
from testbed.plan.program import Plan
from testbed.plan.units import Unit
from testbed.protocols import protocol_of
from testbed.protocols.allocation import Window
from testbed.topology.fabric import Fabric
from testbed.topology.framing import framing
from testbed.topology.paths import EvenPaths

LARGEST_WINDOW = 256


def window(plan: Plan, fabric: Fabric, options: Mapping[str, Any]) -> Window:
    """The window of the job's options, or a fair share of half a port's queue for all streams that
    may meet there.

    ECMP may put a flow on any link of its paths, so a stream counts on all of them. Raises
    DeploymentError if a switch's memory is too small for the window.
    """
    if not plan.trees:
        return Window(0)
    streams: Counter[tuple[str, str]] = Counter()
    paths = EvenPaths(fabric)
    for tree in plan.trees:
        for child, parent in tree.parent.items():
            streams.update(paths.shares(child, parent).keys())
    frame = framing(fabric).frame
    fair = min(fabric.link(*ends).queue // 2 // (frame * count) for ends, count in streams.items())
    queued = max(2, min(fair, LARGEST_WINDOW))
    # A pool has two versions of each slot, and every such tree at a switch has a pool of its own.
    pools = Counter(
        switch for tree in plan.trees if protocol_of(tree).own_slots(1) for switch in tree.switches
    )
    sums = any(tree.switches for tree in plan.trees)
    most = fabric.slots // (2 * max(pools.values(), default=1)) if sums else queued
    fair = max(2, min(queued, most))
    busiest = max(plan.trees, key=lambda tree: tree.streams)
    rate = min(fabric.link(*ends).rate for ends in streams)
    fragments, message = protocol_of(busiest).window(options, fair)
    if sums and fragments > fabric.slots:
        raise DeploymentError(
            f"fabric.slots: found {fabric.slots}, wanted at least {fragments} for the job's window"
        )
    drain_s = fragments * busiest.streams * frame * 8 / rate
    return Window(fragments, message, drain_s, queued if fragments == fair < queued else 0)


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
