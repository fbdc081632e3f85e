"""How much of the switches' memory and of the ports' queues each job's trees use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from testbed import wire
from testbed.deployment.errors import DeploymentError
from testbed.plan.program import Plan
from testbed.plan.trees import Style, Tree
from testbed.switches.entries import Allocation
from testbed.topology.fabric import Fabric
from testbed.topology.framing import framing
from testbed.topology.paths import EvenPaths

LARGEST_WINDOW = 256


@dataclass(frozen=True)
class Window:
    """What a sender on a tree may have in flight.

    ``fragments``; ``message`` is how many of them make a message (NetReduce, else 0); ``drain_s``
    is how long a window of all streams takes at the root, scaled as rates are.
    """

    fragments: int
    message: int = 0
    drain_s: float = 0.0

    def slots(self, tree: Tree) -> int:
        """Aggregators that a tree needs for itself: two versions of its window."""
        return 0 if tree.style is Style.ATP else 2 * self.fragments


def window(plan: Plan, fabric: Fabric, options: Mapping[str, Any]) -> Window:
    """What the job's options ask for, or what all streams that may meet at a port leave in half
    of its queue.

    ECMP may put any of its flows on the same link, so a stream counts on all of them.
    DeploymentError if a switch's memory is too small for what is asked.
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
    if any(tree.style is Style.NETREDUCE for tree in plan.trees):
        messages = int(options["window"])
        message = max(1, min(int(options["message"]), fair // messages))
        fragments = messages * message
    else:
        message = 0
        fragments = int(options.get("window") or fair)
    if fragments > fabric.slots:
        raise DeploymentError(
            f"window: found {fragments}, wanted at most the {fabric.slots} slots of a switch"
        )
    return Window(fragments, message, fragments * busiest.streams * frame * 8 / rate)


def allocate(jobs: Sequence[tuple[Plan, Window]], slots: int) -> list[list[Allocation]]:
    """Number the trees of all jobs, and divide a switch's ``slots`` among them, job by job.

    Trees of style ATP share what the others, whose slots are theirs alone, leave over.
    DeploymentError if it is too little.
    """
    count = sum(len(plan.trees) for plan, _ in jobs)
    if count > wire.MAX_TREES:
        raise DeploymentError(f"found {count} trees of all jobs, wanted at most {wire.MAX_TREES}")
    first = sum(window.slots(tree) for plan, window in jobs for tree in plan.trees)
    shared = slots - first
    wanted = max(
        (each.fragments for plan, each in jobs for tree in plan.trees if not each.slots(tree)),
        default=0,
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
            own = each.slots(tree)
            place = (first, own) if own else (0, shared)
            allocations[-1].append(Allocation(number, job, tree, *place))
            number, first = number + 1, first + own
    return allocations
