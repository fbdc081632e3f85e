"""A rank's operations on one tree, in an order that all ranks of the tree share.

Sequence numbers identify fragments, so all ranks on a tree must count them alike: unit by unit,
and within a unit in program order. An operation that is ready before its turn waits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from testbed.hosts.messages import Values
from testbed.hosts.transport import Flow
from testbed.plan.program import Plan, TreeOperation
from testbed.plan.units import Unit

_NONE = np.zeros(0, np.int64)


@dataclass(frozen=True)
class Pushed:
    """An operation in progress: its chunk of a unit, and its fragments, ``first`` to ``end``."""

    unit: int
    chunk: int
    values: Values
    first: int
    end: int


class TreeQueue:
    """The operations of rank ``rank`` on tree ``tree`` of ``plan``, pushed in turn to ``flow``.

    ``units`` are those of an iteration.
    """

    def __init__(self, plan: Plan, rank: int, tree: int, flow: Flow, units: Sequence[Unit]) -> None:
        self._flow, self._units = flow, units
        self._orders = [
            [
                op
                for op in collective.programs[rank]
                if isinstance(op, TreeOperation) and op.tree == tree
            ]
            for collective, _ in plan.collectives
        ]
        self._first = (0, *accumulate(len(self._orders[unit.gathers]) for unit in units))
        self._ready: dict[int, tuple[TreeOperation, int, Values]] = {}
        self._turn = 0
        self._end = 0
        self._pushed: deque[Pushed] = deque()

    def ready(self, operation: TreeOperation, unit: int, values: Values) -> bool:
        """``operation`` of ``unit`` is ready; it begins when its turn comes.

        Returns whether an operation has ended at once, because it carries nothing.
        """
        iteration, index = divmod(unit, len(self._units))
        order = self._orders[self._units[index].gathers]
        turn = iteration * self._first[-1] + self._first[index] + order.index(operation)
        self._ready[turn] = operation, unit, values
        while (next_one := self._ready.pop(self._turn, None)) is not None:
            self._push(*next_one)
            self._turn += 1
        return bool(self._pushed) and self._pushed[0].first == self._pushed[0].end

    def _push(self, operation: TreeOperation, unit: int, values: Values) -> None:
        first = self._end
        # A chunk of a small unit may be empty: then there is nothing to carry.
        priority = self._units[unit % len(self._units)].priority
        self._end += self._flow.push(operation, values, priority) if values.size else 0
        self._pushed.append(Pushed(unit, operation.chunk, values, first, self._end))

    def completed(self) -> Iterator[tuple[Pushed, npt.NDArray[np.int64]]]:
        """The operations that have ended since the last call. With each come the numbers of its
        fragments that were summed as floats, counted from its first fragment."""
        if self._pushed:
            done = self._flow.done()
            while self._pushed and self._pushed[0].end <= done:
                ended = self._pushed.popleft()
                yield ended, self._floats(ended)

    def _floats(self, ended: Pushed) -> npt.NDArray[np.int64]:
        found = self._flow.floats()
        if not len(found):
            return _NONE
        all_of_tree = found.astype(np.int64)
        return all_of_tree[(ended.first <= all_of_tree) & (all_of_tree < ended.end)] - ended.first
