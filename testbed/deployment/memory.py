"""The share of switch memory and port queues that each job's trees use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from testbed import wire
from testbed.deployment.errors import DeploymentError
from testbed.plan.program import Plan
from testbed.protocols import protocol_of
from testbed.protocols.allocation import Allocation, Window
from testbed.topology.fabric import Fabric
from testbed.topology.framing import framing
from testbed.topology.paths import EvenPaths

LARGEST_WINDOW = 256


def window(plan: Plan, fabric: Fabric, options: Mapping[str, Any]) -> Window:
    """The window of the job's options, or a fair share of half a port's queue for all streams that
    may meet there.

    ECMP may put a flow on any link of its paths, so a stream counts on all of them. DeploymentError
    if a switch's memory is too small for the window.
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
    fair = max(2, min(fair, LARGEST_WINDOW, fabric.slots // 2))
    busiest = max(plan.trees, key=lambda tree: tree.streams)
    rate = min(fabric.link(*ends).rate for ends in streams)
    fragments, message = protocol_of(busiest).window(options, fair)
    if fragments > fabric.slots:
        raise DeploymentError(
            f"window: found {fragments}, wanted at most the {fabric.slots} slots of a switch"
        )
    return Window(fragments, message, fragments * busiest.streams * frame * 8 / rate)


def allocate(jobs: Sequence[tuple[Plan, Window]], slots: int) -> list[list[Allocation]]:
    """Number the trees of all jobs, and divide a switch's ``slots`` among them, job by job.

    Trees whose protocol shares slots share the slots that the others leave over. DeploymentError if
    there are too few.
    """
    count = sum(len(plan.trees) for plan, _ in jobs)
    if count > wire.MAX_TREES:
        raise DeploymentError(f"found {count} trees of all jobs, wanted at most {wire.MAX_TREES}")
    windows = [(tree, each.fragments) for plan, each in jobs for tree in plan.trees]
    first = sum(protocol_of(tree).own_slots(fragments) for tree, fragments in windows)
    shared = slots - first
    wanted = max(
        (fragments for tree, fragments in windows if tree.protocol.shares_slots), default=0
    )
    if shared < wanted:
        raise DeploymentError(
            f"fabric.slots: found {slots}, wanted at least {first + wanted} for the windows of all"
            " jobs; raise slots, or lower the option window"
        )
    allocations: list[list[Allocation]] = []
    number, first = 0, shared
    for job, (plan, each) in enumerate(jobs):
        allocations.append([])
        for tree in plan.trees:
            own = protocol_of(tree).own_slots(each.fragments)
            place = (first, own) if own else (0, shared)
            allocations[-1].append(Allocation(number, job, tree, *place))
            number, first = number + 1, first + own
    return allocations
