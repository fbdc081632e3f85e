"""A worker's gradients, and the check of the sums that it received."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from testbed.hosts.messages import Values
from testbed.hosts.task import RankOutcome, Task
from testbed.plan.units import Unit
from testbed.workload.gradients import Gradients

_BLOCK = 1 << 15


def sum_check(task: Task, gradients: Gradients, values: Values, outcome: RankOutcome) -> SumCheck:
    """The check of ``task``'s values, int32[task.layout.elements]. Results are added to
    ``outcome``."""
    kind = SumCheck if task.plan.sharding is None else ShardCheck
    return kind(task, gradients, values, outcome)


class SumCheck:
    """Fills all values with gradients before an iteration, and checks all sums after it."""

    def __init__(
        self, task: Task, gradients: Gradients, values: Values, outcome: RankOutcome
    ) -> None:
        self._task, self._gradients = task, gradients
        self._values, self._outcome = values, outcome
        self._summed_as_floats: list[slice] = []

    def fill(self, iteration: int) -> None:
        self._summed_as_floats = []
        for unit, part in self._parts():
            origin = _origin(unit, iteration)
            self._gradients.fill(self._task.rank, origin, self._values[part], part.start)

    def begins(self, iteration: int, number: int) -> None:
        """Unit ``number`` of ``iteration`` is about to begin."""

    def ended(self, iteration: int, number: int) -> None:
        """Unit ``number`` of ``iteration`` has ended."""

    def note_floats(self, values: Values, fragments: npt.NDArray[np.int64]) -> None:
        """These ``fragments`` of ``values``, a part of the whole, were summed as floats."""
        start = (values.ctypes.data - self._values.ctypes.data) // self._values.itemsize
        for fragment in fragments.tolist():
            first = start + fragment * self._task.layout.carried
            end = min(first + self._task.layout.carried, start + len(values))
            self._summed_as_floats.append(slice(first, end))

    def quantise(self, iteration: int) -> None:
        """Record the quantisation error of the sums as received, at rank 0 only: it is the same
        for all ranks. Call it before :meth:`check`."""
        gradients = self._gradients
        if gradients.sample is None or self._task.rank != 0:
            return
        total = self._values.astype(np.float64)
        for part in self._summed_as_floats:
            total[part] = self._values[part].view(np.float32)
        for unit, part in self._parts():
            total[part] -= gradients.offset_of(_origin(unit, iteration), part.start, part.stop)
        self._outcome.quantisation_error = gradients.quantisation_error(total)

    def check(self, iteration: int) -> None:
        for unit, part in self._parts():
            self._check_floats(part, _origin(unit, iteration))
            # In blocks that stay in the cache: this runs while other ranks communicate.
            for first in range(part.start, part.stop, _BLOCK):
                block = slice(first, min(first + _BLOCK, part.stop))
                self._outcome.wrong += self._gradients.wrong(
                    self._values[block], block.start, _origin(unit, iteration)
                )
        self._outcome.checked += self._values.size
        self._gradients.take(self._task.rank, iteration, self._values)

    def _parts(self) -> Iterator[tuple[Unit, slice]]:
        """Each unit, and its part of the values."""
        layout = self._task.layout
        for number, unit in enumerate(self._task.units):
            yield unit, layout.unit(number)

    def _check_floats(self, unit: slice, iteration: int) -> None:
        """Compare the sums of floats in ``unit``, and replace them by the sums of integers."""
        gradients = self._gradients
        for part in self._summed_as_floats:
            if not unit.start <= part.start < unit.stop:
                continue
            truth = gradients.float_total(iteration, part.start, part.stop)
            self._outcome.wrong += int(np.count_nonzero(self._values[part] != truth.view(np.int32)))
            self._outcome.floats += 1
            self._values[part] = gradients.total(iteration, part.start, part.stop)


class ShardCheck(SumCheck):
    """Checks parameters in shards: they are the sums of the iteration before.

    The optimizer is the identity: a worker keeps the sums of the chunks that it owns, and these are
    what others gather. Chunks that it does not own are cleared before they are gathered.
    """

    def __init__(
        self, task: Task, gradients: Gradients, values: Values, outcome: RankOutcome
    ) -> None:
        super().__init__(task, gradients, values, outcome)
        self._owned = task.plan.owned(task.rank)

    def fill(self, iteration: int) -> None:
        if iteration == 0:  # the parameters that training begins with
            self._values[:] = self._gradients.total(-1, 0, self._values.size)

    def begins(self, iteration: int, number: int) -> None:
        layout, part = self._task.layout, self._task.layout.unit(number)
        if not self._task.units[number].gathers:
            self._gradients.fill(self._task.rank, iteration, self._values[part], part.start)
            return
        for chunk in set(range(self._task.plan.chunks)) - self._owned:
            self._values[layout.chunk(number, chunk)] = 0

    def ended(self, iteration: int, number: int) -> None:
        layout, gathers = self._task.layout, self._task.units[number].gathers
        for chunk in range(self._task.plan.chunks):
            if gathers or chunk in self._owned:
                part = layout.chunk(number, chunk)
                self._outcome.wrong += self._gradients.wrong(
                    self._values[part], part.start, iteration - gathers
                )
                self._outcome.checked += part.stop - part.start

    def quantise(self, iteration: int) -> None:
        """No rank has all sums at once."""

    def check(self, iteration: int) -> None:
        """Everything has been checked when its unit ended."""


def _origin(unit: Unit, iteration: int) -> int:
    """The iteration whose gradients a unit holds in ``iteration``."""
    return iteration - unit.deferred
