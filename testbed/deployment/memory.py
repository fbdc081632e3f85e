"""Slots of switches, divided among all jobs' trees."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence

from testbed import wire
from testbed.deployment.errors import DeploymentError
from testbed.deployment.windows import cut
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
    windows = _windows(jobs, [each.fragments for _, each in jobs])
    _count([tree for tree, _ in windows])
    firsts, taken = _firsts(windows)
    shared = slots - taken
    if shared < _least_shared(windows):
        raise DeploymentError(_too_few(jobs, slots))
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


def _windows(
    jobs: Sequence[tuple[Plan, Window]], fragments: Sequence[int]
) -> list[tuple[Tree, int]]:
    """Every tree of all jobs, with the fragments that its job has in flight."""
    return [
        (tree, own) for (plan, _), own in zip(jobs, fragments, strict=True) for tree in plan.trees
    ]


def _firsts(windows: Sequence[tuple[Tree, int]]) -> tuple[list[int], int]:
    """The first of each tree's own slots, and how many slots all trees have of their own."""
    ends: Counter[str] = Counter()  # of the slots that each switch's trees have
    firsts = []
    for tree, fragments in windows:
        firsts.append(max((ends[switch] for switch in tree.switches), default=0))
        end = firsts[-1] + _own_slots(tree, fragments)
        ends.update({switch: end - ends[switch] for switch in tree.switches})
    return firsts, max(ends.values(), default=0)


def _least_shared(windows: Sequence[tuple[Tree, int]]) -> int:
    """The slots that trees of protocols that share slots need together."""
    return max(
        (each for tree, each in windows if tree.protocol.shares_slots and tree.switches), default=0
    )


def _least(windows: Sequence[tuple[Tree, int]]) -> int:
    """The fewest slots in which all windows fit."""
    return _firsts(windows)[1] + _least_shared(windows)


def _fragments(jobs: Sequence[tuple[Plan, Window]], slots: int) -> list[int]:
    """The window of each job if switches had more ``slots``."""
    return [
        cut(plan, each.cut_from, slots) if each.cut_from else each.fragments for plan, each in jobs
    ]


def _too_few(jobs: Sequence[tuple[Plan, Window]], slots: int) -> str:
    """What to change if ``slots`` are too few for all jobs.

    Default windows grow with the slots, up to what queues hold. So the slots that are named have
    room for the windows that follow from them. Otherwise all windows that are counted in fragments
    may be lowered; one of messages follows other options.
    """
    least = slots
    while (needed := _least(_windows(jobs, _fragments(jobs, least)))) > least:
        least = needed
    lowered = [
        not each.message and any(tree.switches for tree in plan.trees) for plan, each in jobs
    ]

    def is_too_large(window: int) -> bool:
        fragments = [
            window if lower else each.fragments
            for lower, (_, each) in zip(lowered, jobs, strict=True)
        ]
        return _least(_windows(jobs, fragments)) > slots

    largest = bisect_left(range(1, slots + 1), True, key=is_too_large) if any(lowered) else 0
    fixes = [f"write fabric.slots: {least}"] if least <= wire.SLOTS else []
    if largest:
        names = [f"jobs.{number}" for number, lower in enumerate(lowered) if lower]
        which = "each job" if all(lowered) else ", ".join(names)
        fixes.append(f"write options: {{window: {largest}}}, or less, for {which}")
    fix = ", or ".join(fixes) or "run fewer jobs at once"
    return (
        f"fabric.slots: found {slots}, wanted at least {least} for the windows of all jobs; {fix}"
    )


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
