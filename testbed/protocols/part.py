"""A switch's part in a tree, as in its table entries."""

from __future__ import annotations

import ipaddress
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
        return int(ipaddress.ip_address(self.addressing.ip(node)))

    @property
    def parameters(self) -> tuple[int, ...]:
        """Job, members below, parent (0 for the root), own address, group, first slot, slots."""
        parent = self.tree.parent.get(self.switch)
        return (
            self.allocation.job,
            sum(1 << rank for rank in self.tree.ranks_below(self.switch)),
            0 if parent is None else self.ip(parent),
            self.own,
            self.group,
            self.allocation.first,
            self.allocation.slots,
        )
