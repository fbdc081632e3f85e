"""A worker as steps: it trains, synchronises and checks."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Generator, Iterable

import numpy as np

from testbed.hosts.interpreter import Interpreter
from testbed.hosts.messages import Chunk, Message, Values
from testbed.hosts.sum_check import sum_check
from testbed.hosts.task import RankOutcome, Task
from testbed.hosts.transport import AT_ONCE, NEVER, Steps, Transport
from testbed.hosts.tree_queue import TreeQueue
from testbed.plan.program import TreeOperation
from testbed.workload.iteration import IterationTimes, UnitTimes
from testbed.workload.replay import Computation, forward, lasting_s


class Worker:
    """Computes (waits), synchronises each unit once it is ready, and checks every sum."""

    def __init__(self, task: Task, transport: Transport) -> None:
        self._task, self._transport = task, transport
        self._outcome = RankOutcome(task.rank)
        self._layout = task.layout
        self._values = np.zeros(self._layout.elements, np.int32)
        self._check = (
            sum_check(task, task.gradients, self._values, self._outcome) if task.gradients else None
        )
        self._unfinished = 0
        self._iteration = 0
        self._now = AT_ONCE
        self._summed: dict[int, float] = {}
        self._begun: dict[int, float] = {}
        self._later: list[tuple[float, int, int]] = []
        self._needed = Counter(unit.needed for unit in task.units)
        self._queues = {
            tree: TreeQueue(task.plan, task.rank, tree, flow, task.units)
            for tree, flow in transport.flows.items()
        }
        self._ended_at_once: set[int] = set()  # trees
        self._interpreter = Interpreter(
            task.plan,
            task.rank,
            self._layout.cuts,
            transport.send,
            self._aggregate,
            self._finish,
            self._wait_a_step if task.step_s > 0 else None,
        )
        self.peers = self._interpreter.receivers

    def steps(self, start: float) -> Steps:
        """All iterations, the first from ``start`` and the task's own delay after that."""
        task, check = self._task, self._check
        start += task.start_s
        for iteration, pace in enumerate(task.paces):
            self._iteration = iteration
            if check is not None:
                check.fill(iteration)
            # All sums arrive before a backward pass begins, so their times are known by now.
            _, stalls = forward(task.forward, start, self._summed, pace)
            begin = start + lasting_s(stalls)
            parts = task.parts or (task.compute_s,)
            missing = [self._needed[part] for part in range(len(parts))]
            self._computation = computation = Computation(parts, missing, begin, pace)
            end = yield from self._synchronise(start, pace)
            compute_end, stalls = computation.end_s, (*stalls, *computation.waits)
            self._outcome.iterations.append(IterationTimes(start, compute_end, end, stalls))
            if iteration == task.iterations - 1:
                self._transport.flush()
                if check is not None:
                    check.quantise(iteration)
            # Checking and filling run while the next iteration "computes".
            if check is not None:
                check.check(iteration)
            start = compute_end if task.forward else end

    @property
    def takes(self) -> bool:
        """Messages for a rank in a tree may let more begin on the tree."""
        return not self._queues

    def take(self, source: int, message: Message, now: float) -> bool:
        """See `testbed.hosts.transport.Taker`."""
        assert isinstance(message, Chunk)
        self._now, unfinished = now, self._unfinished
        self._interpreter.arrived(source, message)
        return self._unfinished < unfinished or bool(self._later)

    def outcome(self) -> RankOutcome:
        self._transport.account(self._outcome)
        if self._task.gradients is not None:
            self._outcome.weights = self._task.gradients.weights
        return self._outcome

    def _synchronise(self, start: float, pace: float) -> Generator[float, float, float]:
        """Sum all units; returns the time when that and the computation have ended."""
        units, released, check = self._task.units, 0, self._check

        def ready(index: int) -> float:
            unit = units[index]
            if unit.deferred:  # was ready before the forward pass, whatever that waits for
                return start + unit.ready_s * pace
            return self._computation.ready_s(unit.ready_s, unit.after)

        self._unfinished = len(units)
        until = AT_ONCE
        while True:
            now = self._now = yield until
            unfinished = self._unfinished
            arrived = self._collect()
            # Without trees, messages let nothing more begin unless a unit has ended.
            moved = arrived and (bool(self._queues) or self._unfinished < unfinished)
            while released < len(units) and ready(released) <= now and self._may_begin(released):
                number = self._number(released)
                self._begun[released] = now
                if check is not None:
                    check.begins(self._iteration, released)
                values, gathers = self._values[self._layout.unit(number)], units[released].gathers
                self._interpreter.begin(number, values, gathers)
                released += 1
                moved = True
            while self._later and self._later[0][0] <= now:
                _, unit, chunk = heapq.heappop(self._later)
                self._interpreter.resume(unit, chunk)
                moved = True
            if moved:
                until = AT_ONCE  # what has begun may be done already and allow more to begin
                continue
            compute_end = self._computation.end_s
            if released == len(units) and not self._unfinished and now >= compute_end:
                return now if units else compute_end
            until = compute_end if now < compute_end else NEVER
            if released < len(units) and (next_s := ready(released)) > now:
                until = min(until, next_s)
            if self._later:
                until = min(until, self._later[0][0])

    def _collect(self) -> bool:
        """Process everything that has arrived; returns whether there was anything."""
        some = False
        for source, message in self._transport.arrived():
            assert isinstance(message, Chunk)
            self._interpreter.arrived(source, message)
            some = True
        finished: Iterable[int] = self._transport.finished()
        if self._ended_at_once:
            finished = sorted({*finished, *self._ended_at_once})
            self._ended_at_once.clear()
        for tree in finished:
            for pushed, floats in self._queues[tree].completed():
                if self._check is not None and len(floats):
                    self._check.note_floats(pushed.values, floats)
                self._interpreter.completed(pushed.unit, pushed.chunk)
                some = True
        return some

    def _aggregate(self, operation: TreeOperation, unit: int, values: Values) -> None:
        if self._queues[operation.tree].ready(operation, unit, values):
            self._ended_at_once.add(operation.tree)

    def _may_begin(self, released: int) -> bool:
        credit = self._task.plan.pipelining.credit
        under_way = released - (len(self._task.units) - self._unfinished)
        return credit is None or under_way < credit

    def _number(self, index: int) -> int:
        return self._iteration * len(self._task.units) + index

    def _wait_a_step(self, unit: int, chunk: int) -> None:
        heapq.heappush(self._later, (self._now + self._task.step_s, unit, chunk))

    def _finish(self, unit: int) -> None:
        self._unfinished -= 1
        index = unit % len(self._task.units)
        its = self._task.units[index]
        self._summed[its.bucket] = self._now
        if self._check is not None:
            self._check.ended(self._iteration, index)
        if its.needed is not None:
            self._computation.arrived(its.needed, self._now)
        if self._task.times_units:
            times = UnitTimes(self._iteration, index, self._begun[index], self._now)
            self._outcome.units.append(times)
