"""A rank's operations on one tree, in the order in which all of the tree's ranks do them.

Sequence numbers tell fragments apart, so everyone on a tree must count them alike: unit after
unit, and within a unit in the order of the program. An operation that is ready before its turn
waits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from testbed.plan.program import Plan, TreeOperation

Values = npt.NDArray[np.int32]


class Flow(Protocol):
    """What carries a tree's fragments at this rank."""

    def push(self, operation: TreeOperation, values: Values) -> int:
        """The next fragments of the tree are those of ``values``, whole packets of int32; how many
        they are."""

    def done(self) -> int:
        """How many fragments, counted from the first, are done without a gap."""

    def floats(self) -> npt.NDArray[np.uint64]:
        """All fragments so far whose sum is in the form of floats."""


@dataclass(frozen=True)
class Use:
    """A pushed operation: its chunk of a unit, and its fragments' numbers ``first`` to ``end``."""

    unit: int
    chunk: int
    values: Values
    first: int
    end: int


class Uses:
    """The operations of rank ``rank`` on tree ``tree`` of ``plan``, pushed in turn to ``flow``."""

    def __init__(self, plan: Plan, rank: int, tree: int, flow: Flow) -> None:
        self._flow = flow
        self._order = [
            op for op in plan.programs[rank] if isinstance(op, TreeOperation) and op.tree == tree
        ]
        self._ready: dict[int, tuple[TreeOperation, int, Values]] = {}
        self._turn = 0
        self._first = 0
        self._pushed: deque[Use] = deque()

    def ready(self, operation: TreeOperation, unit: int, values: Values) -> None:
        """``operation`` of ``unit`` can begin; it does when its turn comes."""
        self._ready[unit * len(self._order) + self._order.index(operation)] = (
            operation,
            unit,
            values,
        )
        while (use := self._ready.pop(self._turn, None)) is not None:
            self._push(*use)
            self._turn += 1

    def _push(self, operation: TreeOperation, unit: int, values: Values) -> None:
        end = self._first + self._flow.push(operation, values)
        self._pushed.append(Use(unit, operation.chunk, values, self._first, end))
        self._first = end

    def completed(self) -> Iterator[Use]:
        """The operations that have ended since the last call."""
        if self._pushed:
            done = self._flow.done()
            while self._pushed and self._pushed[0].end <= done:
                yield self._pushed.popleft()

    def floats(self, use: Use) -> npt.NDArray[np.int64]:
        """Which fragments of ``use``, counted from its first, were summed as floats."""
        all_of_tree = self._flow.floats().astype(np.int64)
        return all_of_tree[(use.first <= all_of_tree) & (all_of_tree < use.end)] - use.first
