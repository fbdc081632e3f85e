"""The share of switch memory and port queues that each job's trees use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from testbed import wire
from testbed.deployment.errors import DeploymentError
from testbed.plan.program import Plan
from testbed.plan.trees import Tree
from testbed.plan.units import Unit
from testbed.protocols import protocol_of
from testbed.protocols.allocation import Allocation, Window
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
        switch for tree in plan.trees if _own_slots(tree, 1) for switch in tree.switches
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


def allocate(jobs: Sequence[tuple[Plan, Window]], slots: int) -> list[list[Allocation]]:
    """Number the trees of all jobs, and divide each switch's ``slots`` among its trees, job by job.

    A tree has the same slots at all its switches, and trees without a common switch may have the
    same slots. Trees whose protocol shares slots share all slots that no other tree has at any
    switch. Raises DeploymentError if there are too few slots, or too many trees.
    """
    windows = [(tree, each.fragments) for plan, each in jobs for tree in plan.trees]
    _count([tree for tree, _ in windows])
    ends: Counter[str] = Counter()  # of the slots that each switch's trees have
    firsts = []
    for tree, fragments in windows:
        firsts.append(max((ends[switch] for switch in tree.switches), default=0))
        end = firsts[-1] + _own_slots(tree, fragments)
        ends.update({switch: end - ends[switch] for switch in tree.switches})
    taken = max(ends.values(), default=0)
    shared = slots - taken
    wanted = max(
        (each for tree, each in windows if tree.protocol.shares_slots and tree.switches), default=0
    )
    if shared < wanted:
        raise DeploymentError(
            f"fabric.slots: found {slots}, wanted at least {taken + wanted} for the windows of all"
            " jobs; raise slots, or lower the option window"
        )
    allocations: list[list[Allocation]] = []
    numbered = enumerate(firsts)
    for job, (plan, each) in enumerate(jobs):
        allocations.append([])
        for tree in plan.trees:
            number, first = next(numbered)
            own = _own_slots(tree, each.fragments)
            # Without a switch, slots are only numbers in packets.
            free = shared if tree.switches else max(shared, 2 * each.fragments)
            place = (shared + first, own) if own else (0, free)
            allocations[-1].append(Allocation(number, job, tree, *place))
    return allocations


def _count(trees: Sequence[Tree]) -> None:
    """Raise DeploymentError if there are more trees than packets or switches can tell apart."""
    if len(trees) > wire.MAX_NUMBERS:
        raise DeploymentError(
            f"found {len(trees)} trees of all jobs, wanted at most {wire.MAX_NUMBERS}"
        )
    for switch, count in Counter(name for tree in trees for name in tree.switches).items():
        if count > wire.MAX_TREES:
            raise DeploymentError(
                f"found {count} trees at {switch}, of all jobs, wanted at most {wire.MAX_TREES}"
            )


def _own_slots(tree: Tree, fragments: int) -> int:
    """The slots that a tree reserves. One without switches, from host to host, needs none."""
    return protocol_of(tree).own_slots(fragments) if tree.switches else 0
