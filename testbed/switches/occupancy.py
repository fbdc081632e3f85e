"""The slots of a switch that are in use, from its registers (``p4/aggregation.p4``)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from testbed.protocols.allocation import Allocation
from testbed.switches.native.embedded import EmbeddedSwitch

OWNERS, CONTRIBUTORS = "InaIngress.aggregation.owners", "InaIngress.aggregation.contributors"
_SEQUENCE_BITS = np.uint64(32)


class Occupancy:
    """Counts slots of the switch ``name``. ControlError if its program has no such registers."""

    def __init__(
        self, switch: EmbeddedSwitch, name: str, allocations: Sequence[Allocation]
    ) -> None:
        self._owners, self._contributors = map(switch.register, (OWNERS, CONTRIBUTORS))
        joined = [each for each in allocations if name in each.tree.switches]
        self._members = np.zeros(max((each.number for each in joined), default=0) + 1, np.uint64)
        for each in joined:
            children = each.tree.children(name)
            self._members[each.number] = sum(map(each.tree.bits, children))

    def taken(self) -> int:
        """The number of slots that hold values. Slots of a pool keep them until they are
        overwritten."""
        return int(np.count_nonzero(self._contributors))

    def incomplete(self) -> int:
        """The number of slots whose sum lacks a contribution."""
        (taken,) = np.nonzero(self._contributors)
        trees = (self._owners[taken] >> _SEQUENCE_BITS).astype(np.int64)
        return int(np.count_nonzero(self._contributors[taken] != self._members[trees]))
