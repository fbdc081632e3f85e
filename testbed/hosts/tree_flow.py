"""A tree of a plan as this rank's engine carries it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from testbed.hosts.aggregation import Engine, Operation
from testbed.hosts.messages import Values
from testbed.hosts.task import RankOutcome
from testbed.plan.program import Multicast, SwitchAllReduce, SwitchReduce, TreeOperation

_OPERATIONS = {
    SwitchAllReduce: Operation.ALL_REDUCE,
    SwitchReduce: Operation.REDUCE,
    Multicast: Operation.MULTICAST,
}


class TreeFlow:
    """One tree of an engine; see `testbed.hosts.transport.Flow`."""

    def __init__(self, engine: Engine, number: int) -> None:
        self._engine, self._number = engine, number

    def push(self, operation: TreeOperation, values: Values, priority: int) -> int:
        what = _OPERATIONS[type(operation)]
        return self._engine.push(self._number, what, values.ctypes.data, len(values), priority)

    def done(self) -> int:
        return self._engine.done(self._number)

    def floats(self) -> npt.NDArray[np.uint64]:
        return self._engine.float_sums(self._number)

    def account(self, outcome: RankOutcome) -> None:
        counters = self._engine.counters(self._number)
        outcome.retransmitted += counters.retransmitted + counters.answered_again
        outcome.collisions += counters.collisions
        outcome.overflows += counters.overflows
