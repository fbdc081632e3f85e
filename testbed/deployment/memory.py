"""Slots of switches, divided among all jobs' trees."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from testbed import wire
from testbed.deployment.errors import DeploymentError
from testbed.plan.program import Plan
from testbed.plan.trees import Tree
from testbed.protocols import protocol_of
from testbed.protocols.allocation import Allocation, Window


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
