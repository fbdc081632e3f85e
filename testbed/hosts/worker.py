"""The loop of a worker: it trains, synchronises and checks."""

from __future__ import annotations

import heapq
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection

import numpy as np
import numpy.typing as npt

from testbed.hosts.connections import Connections
from testbed.hosts.interpreter import Interpreter, Values
from testbed.hosts.task import Outcome, Task
from testbed.hosts.uses import Use
from testbed.plan.units import Unit, grain
from testbed.workload.iteration import IterationTimes
from testbed.workload.replay import forward, lasting_s

_BLOCK = 1 << 15


class Worker:
    """Computes (sleeps), synchronises each unit once it is ready, and checks every sum."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._outcome = Outcome(task.rank)
        self._values = np.empty(task.elements, np.int32)
        self._unfinished = 0
        self._iteration = 0
        self._arrived: dict[int, float] = {}
        self._later: list[tuple[float, int, int]] = []
        self._summed_as_floats: list[slice] = []
        self._connections = Connections(task)
        self._interpreter = Interpreter(
            task.plan,
            task.rank,
            grain(task.plan, task.values),
            self._connections.send,
            self._connections.aggregate,
            self._finish,
            self._wait_a_step if task.step_s > 0 else None,
        )

    def connect(self) -> None:
        self._connections.connect()

    def run(self, start: float) -> Outcome:
        """Run all iterations, the first from ``start`` on the monotonic clock."""
        start += self._task.start_s
        for iteration, pace in enumerate(self._task.paces):
            self._iteration = iteration
            self._fill()
            # All sums are here before a backward pass begins, so its times are known by now.
            _, stalls = forward(self._task.forward, start, self._arrived, pace)
            stalled = lasting_s(stalls)
            end = self._synchronise(start, stalled, pace)
            compute_end = start + stalled + self._task.compute_s * pace
            self._outcome.iterations.append(IterationTimes(start, compute_end, end, stalls))
            if iteration == self._task.iterations - 1:
                self._connections.flush()
                self._outcome.quantisation_error = self._quantisation_error()
            # Checking and filling run while the next iteration "computes".
            self._check()
            start = compute_end if self._task.forward else end
        self._connections.account(self._outcome)
        return self._outcome

    def linger(self, orders: Connection) -> None:
        """Answer peers that missed something, until anything arrives on ``orders``."""
        self._connections.watch(orders)
        while not orders.poll():
            self._connections.wait(None)
            self._collect()

    def close(self) -> None:
        self._connections.close()

    def _fill(self) -> None:
        self._unfinished = len(self._task.units)
        self._summed_as_floats = []
        for unit in self._task.units:
            self._task.gradients.fill(
                self._task.rank, self._origin(unit), self._part(unit), unit.offset
            )

    def _origin(self, unit: Unit) -> int:
        """The iteration whose gradients a unit holds."""
        return self._iteration - unit.deferred

    def _part(self, unit: Unit) -> Values:
        return self._values[unit.offset : unit.offset + unit.elements]

    def _synchronise(self, start: float, stalled: float, pace: float) -> float:
        """Sum all units; when that and computing are over."""
        units, released = self._task.units, 0
        # What is deferred was ready before the forward pass, whatever that waits for.
        ready = [
            start + (0.0 if unit.deferred else stalled) + unit.ready_s * pace for unit in units
        ]
        compute_end = start + stalled + self._task.compute_s * pace
        while True:
            moved = self._collect()
            now = time.monotonic()
            while released < len(units) and ready[released] <= now and self._may_begin(released):
                self._interpreter.begin(self._number(released), self._part(units[released]))
                released += 1
                moved = True
            while self._later and self._later[0][0] <= now:
                _, unit, chunk = heapq.heappop(self._later)
                self._interpreter.resume(unit, chunk)
                moved = True
            if released == len(units) and not self._unfinished and now >= compute_end:
                return now if units else compute_end
            if moved:
                continue  # what has begun may be done already, and make room for more
            deadlines = [compute_end] if now < compute_end else []
            deadlines += (
                [ready[released]] if released < len(units) and ready[released] > now else []
            )
            deadlines += [self._later[0][0]] if self._later else []
            self._wait(min(deadlines, default=None))

    def _wait(self, deadline: float | None) -> None:
        if not self._connections.wait(deadline) and deadline is not None:
            late = time.monotonic() - deadline
            self._outcome.late_s = max(self._outcome.late_s, late)

    def _collect(self) -> bool:
        """Go on with all that has arrived; whether there was anything."""
        some = False
        for source, unit, chunk, values in self._connections.arrived():
            self._interpreter.arrived(source, unit, chunk, values)
            some = True
        for use, floats in self._connections.completed():
            self._note_floats(use, floats)
            self._interpreter.completed(use.unit, use.chunk)
            some = True
        return some

    def _note_floats(self, use: Use, fragments: npt.NDArray[np.int64]) -> None:
        start = (use.values.ctypes.data - self._values.ctypes.data) // self._values.itemsize
        for fragment in fragments.tolist():
            first = start + fragment * self._task.values
            self._summed_as_floats.append(slice(first, first + self._task.values))

    def _may_begin(self, released: int) -> bool:
        under_way = released - (len(self._task.units) - self._unfinished)
        return self._task.plan.credit is None or under_way < self._task.plan.credit

    def _number(self, index: int) -> int:
        return self._iteration * len(self._task.units) + index

    def _wait_a_step(self, unit: int, chunk: int) -> None:
        heapq.heappush(self._later, (time.monotonic() + self._task.step_s, unit, chunk))

    def _finish(self, unit: int) -> None:
        self._unfinished -= 1
        bucket = self._task.units[unit % len(self._task.units)].bucket
        self._arrived[bucket] = time.monotonic()

    def _quantisation_error(self) -> float | None:
        """Of the sums as they were received; one rank's, as all have the same."""
        gradients = self._task.gradients
        if gradients.sample is None or self._task.rank != 0:
            return None
        total = self._values.astype(np.float64)
        for part in self._summed_as_floats:
            total[part] = self._values[part].view(np.float32)
        for unit in self._task.units:
            total[unit.offset : unit.offset + unit.elements] -= gradients.offset(self._origin(unit))
        return gradients.quantisation_error(total)

    def _check(self) -> None:
        total = self._task.gradients.expected_total()
        for unit in self._task.units:
            self._check_floats(unit)
            end = unit.offset + unit.elements
            # In blocks that stay in the cache: this runs while others communicate.
            for first in range(unit.offset, end, _BLOCK):
                block = slice(first, min(first + _BLOCK, end))
                self._outcome.wrong += self._task.gradients.mismatches(
                    self._values[block], total[block], self._origin(unit)
                )
        self._outcome.checked += self._values.size

    def _check_floats(self, unit: Unit) -> None:
        """Compare what was summed as floats, and put the sum of integers in its place."""
        gradients, iteration = self._task.gradients, self._origin(unit)
        for part in self._within(unit, self._summed_as_floats):
            truth = gradients.float_total(iteration, part.start, part.stop)
            self._outcome.wrong += int(np.count_nonzero(self._values[part] != truth.view(np.int32)))
            self._outcome.floats += 1
            self._values[part] = gradients.expected_total()[part] + gradients.offset(iteration)

    @staticmethod
    def _within(unit: Unit, parts: Sequence[slice]) -> list[slice]:
        end = unit.offset + unit.elements
        return [part for part in parts if unit.offset <= part.start < end]
