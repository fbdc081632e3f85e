"""A worker's gradients, and the check of the sums that it received."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from testbed.hosts.messages import Values
from testbed.hosts.task import RankOutcome, Task
from testbed.plan.units import Unit
from testbed.workload.gradients import Gradients

_BLOCK = 1 << 15


class SumCheck:
    """Fills ``values``, int32[task.elements], with gradients, and checks them once they are sums.

    Results are added to ``outcome``.
    """

    def __init__(
        self, task: Task, gradients: Gradients, values: Values, outcome: RankOutcome
    ) -> None:
        self._task, self._gradients = task, gradients
        self._values, self._outcome = values, outcome
        self._summed_as_floats: list[slice] = []

    def fill(self, iteration: int) -> None:
        self._summed_as_floats = []
        for unit in self._task.units:
            part = self._values[unit.offset : unit.offset + unit.elements]
            self._gradients.fill(self._task.rank, _origin(unit, iteration), part, unit.offset)

    def note_floats(self, values: Values, fragments: npt.NDArray[np.int64]) -> None:
        """These ``fragments`` of ``values``, a part of the whole, were summed as floats."""
        start = (values.ctypes.data - self._values.ctypes.data) // self._values.itemsize
        for fragment in fragments.tolist():
            first = start + fragment * self._task.values
            self._summed_as_floats.append(slice(first, first + self._task.values))

    def quantise(self, iteration: int) -> None:
        """Record the quantisation error of the sums as received, at rank 0 only: it is the same
        for all ranks. Call it before :meth:`check`."""
        gradients = self._gradients
        if gradients.sample is None or self._task.rank != 0:
            return
        total = self._values.astype(np.float64)
        for part in self._summed_as_floats:
            total[part] = self._values[part].view(np.float32)
        for unit in self._task.units:
            offset = gradients.offset(_origin(unit, iteration))
            total[unit.offset : unit.offset + unit.elements] -= offset
        self._outcome.quantisation_error = gradients.quantisation_error(total)

    def check(self, iteration: int) -> None:
        total = self._gradients.expected_total()
        for unit in self._task.units:
            self._check_floats(unit, _origin(unit, iteration))
            end = unit.offset + unit.elements
            # In blocks that stay in the cache: this runs while other ranks communicate.
            for first in range(unit.offset, end, _BLOCK):
                block = slice(first, min(first + _BLOCK, end))
                self._outcome.wrong += self._gradients.mismatches(
                    self._values[block], total[block], _origin(unit, iteration)
                )
        self._outcome.checked += self._values.size

    def _check_floats(self, unit: Unit, iteration: int) -> None:
        """Compare what was summed as floats, and replace it by the sum of integers."""
        gradients, end = self._gradients, unit.offset + unit.elements
        for part in self._summed_as_floats:
            if not unit.offset <= part.start < end:
                continue
            truth = gradients.float_total(iteration, part.start, part.stop)
            self._outcome.wrong += int(np.count_nonzero(self._values[part] != truth.view(np.int32)))
            self._outcome.floats += 1
            self._values[part] = gradients.expected_total()[part] + gradients.offset(iteration)


def _origin(unit: Unit, iteration: int) -> int:
    """The iteration whose gradients a unit holds in ``iteration``."""
    return iteration - unit.deferred
