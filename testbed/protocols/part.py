"""A switch's part in a tree, as its table entries describe it."""

from __future__ import annotations

from dataclasses import dataclass

from testbed.plan.trees import Tree
from testbed.protocols.allocation import Allocation
from testbed.topology.addressing import Addressing


@dataclass(frozen=True)
class Part:
    """The part of ``switch`` in the tree of ``allocation``.

    ``group`` is the multicast group of its children.
    """

    switch: str
    addressing: Addressing
    allocation: Allocation
    group: int

    @property
    def tree(self) -> Tree:
        return self.allocation.tree

    @property
    def own(self) -> int:
        """The switch's own address."""
        return self.ip(self.switch)

    def ip(self, node: str) -> int:
        return self.addressing.ip_number(node)

    @property
    def number(self) -> int:
        """The number that makes its children's bits unique (`Tree.number`). 0 if the switch gets
        only packets that it is to sum."""
        tree = self.tree
        return tree.number(tree.children(self.switch)[0]) if tree.protocol.shares_slots else 0

    @property
    def parameters(self) -> tuple[int, ...]:
        """The job; the bits of the children; the bits and the number of their sum at the parent;
        the parent (0 for the root); the switch's own address; the group; the first slot; how many
        slots."""
        tree = self.tree
        parent = tree.parent.get(self.switch)
        return (
            self.allocation.job,
            sum(tree.bits(child) for child in tree.children(self.switch)),
            0 if parent is None else tree.bits(self.switch),
            0 if parent is None else tree.number(self.switch),
            0 if parent is None else self.ip(parent),
            self.own,
            self.group,
            self.allocation.first,
            self.allocation.slots,
        )
