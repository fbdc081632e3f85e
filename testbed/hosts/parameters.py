"""Parameters at servers, which every worker updates on its own account: ASP, SSP and R2SP.

A worker sends a chunk of its gradient. The server adds it to its parameters, int32 with
wrap-around, and answers with them once the plan's consistency allows. An answer ends with one
more value a worker: how many updates of each the parameters contain. So each answer can be
checked to the bit, whatever the order in which updates came.

Where workers take turns, a server tells the next one that it is its turn, by a message of one
value, as soon as it has all that the one before pushes in an iteration.
"""

from __future__ import annotations

import selectors
import time
from collections import deque
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection

import numpy as np
import numpy.typing as npt

from testbed.hosts.stream import Mesh
from testbed.hosts.task import Outcome, Task
from testbed.plan.program import Consistency, Update
from testbed.workload.iteration import IterationTimes

Values = npt.NDArray[np.int32]


class Shard:
    """One chunk of one unit at its server: parameters, and updates of each worker in them."""

    def __init__(self, parameters: Values, workers: int, consistency: Consistency) -> None:
        self.parameters = parameters
        self.counts = [0] * workers
        self._consistency = consistency
        self._early: dict[int, Values] = {}
        self._unanswered: list[int] = []

    def push(self, worker: int, gradient: Values) -> Iterator[int]:
        """Take an update; yield each worker to be answered with what the shard is at that moment.

        Nothing more is added before the next one is asked for.
        """
        self._early[worker] = gradient
        while (addable := self._next()) is not None:
            self.parameters += self._early.pop(addable)
            self.counts[addable] += 1
            self._unanswered.append(addable)
            for each in tuple(self._unanswered):
                if self._consistency.may_answer(self.counts, each):
                    self._unanswered.remove(each)
                    yield each

    def _next(self) -> int | None:
        may_add = self._consistency.may_add
        return next((worker for worker in self._early if may_add(self.counts, worker)), None)


def may_hold(consistency: Consistency, counts: Sequence[int], worker: int, own: int) -> bool:
    """Whether an answer to update number ``own`` (from 1) of ``worker`` may contain ``counts``."""
    if counts[worker] != own or min(counts) < 0:
        return False
    if consistency.turns:
        return all(count == own - (rank > worker) for rank, count in enumerate(counts))
    return consistency.may_answer(counts, worker)


class Worker:
    """Computes (sleeps), pushes each unit once it is ready, and checks all that it pulls."""

    def __init__(self, task: Task) -> None:
        assert task.plan.consistency is not None
        self._task, self._consistency = task, task.plan.consistency
        self._outcome = Outcome(task.rank)
        self._gradient = np.empty(task.elements, np.int32)
        self._pulled = np.empty(task.elements, np.int32)
        self._spans = _spans(task)
        self._counts: dict[tuple[int, int], list[int]] = {}
        self._updates = [op for op in task.plan.programs[task.rank] if isinstance(op, Update)]
        self._missing: dict[int, int] = {}
        self._turns = dict.fromkeys((update.server for update in self._updates), 0)
        self._mesh = Mesh(task.rank, task.addresses)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._mesh, selectors.EVENT_READ)

    def connect(self) -> None:
        self._mesh.connect(self._turns)

    def run(self, start: float) -> Outcome:
        """Run all iterations, the first from ``start`` and the task's own delay after that."""
        start += self._task.start_s
        for iteration, pace in enumerate(self._task.paces):
            self._task.gradients.fill(self._task.rank, iteration, self._gradient)
            compute_end = start + self._task.compute_s * pace
            ready = [start + unit.ready_s * pace for unit in self._task.units]
            if self._consistency.turns:
                # A turn that waited for a backward pass would keep everyone waiting.
                ready = [max(ready)] * len(ready)
            end = self._update(iteration, ready, compute_end)
            self._outcome.iterations.append(IterationTimes(start, compute_end, end))
            # Checking and filling run while the next iteration "computes".
            self._check(iteration)
            start = end
        return self._outcome

    def close(self) -> None:
        self._mesh.close()
        self._selector.close()

    def _update(self, iteration: int, ready: Sequence[float], compute_end: float) -> float:
        """Push what gets ready, pull it all; returns when that and compute have ended."""
        credit = self._task.plan.credit or len(ready)
        begun = 0
        leaving: deque[tuple[float, int]] = deque()
        while True:
            now = time.monotonic()
            while (
                begun < len(ready)
                and ready[begun] <= now
                and len(self._missing) < credit
                and self._has_turn(iteration)
            ):
                self._missing[begun] = len(self._updates)
                leaving.append((now + self._task.step_s, begun))
                begun += 1
            while leaving and leaving[0][0] <= now:
                self._push(iteration, leaving.popleft()[1])
            if begun == len(ready) and not self._missing and now >= compute_end:
                return now
            awaited = [compute_end, *ready[begun : begun + 1], *(at for at, _ in leaving)]
            self._wait(iteration, min((at for at in awaited if at > now), default=None))

    def _has_turn(self, iteration: int) -> bool:
        return not self._consistency.turns or min(self._turns.values()) > iteration

    def _push(self, iteration: int, unit: int) -> None:
        number = iteration * len(self._task.units) + unit
        for update in self._updates:
            values = self._gradient[self._spans[unit, update.chunk]]
            self._mesh.send(update.server, number, update.chunk, values)

    def _wait(self, iteration: int, deadline: float | None) -> None:
        timeout = None if deadline is None else max(0.0, deadline - time.monotonic())
        if not self._selector.select(timeout) and deadline is not None:
            self._outcome.late_s = max(self._outcome.late_s, time.monotonic() - deadline)
        workers = self._task.plan.workers
        for server, number, chunk, values in self._mesh.poll():
            if len(values) == 1:
                self._turns[server] += 1
                continue
            unit = number - iteration * len(self._task.units)
            self._pulled[self._spans[unit, chunk]] = values[:-workers]
            self._counts[unit, chunk] = values[-workers:].tolist()
            self._missing[unit] -= 1
            if not self._missing[unit]:
                del self._missing[unit]

    def _check(self, iteration: int) -> None:
        for piece, span in self._spans.items():
            counts, pulled = self._counts[piece], self._pulled[span]
            self._outcome.checked += pulled.size
            if may_hold(self._consistency, counts, self._task.rank, iteration + 1):
                self._outcome.wrong += _wrong(self._task, pulled, counts, span)
            else:
                self._outcome.wrong += pulled.size


class Server:
    """Adds and answers until told to stop, then checks that it holds every update."""

    def __init__(self, task: Task) -> None:
        plan = task.plan
        assert plan.consistency is not None
        self._task = task
        served = {
            op.chunk
            for ops in plan.programs
            for op in ops
            if isinstance(op, Update) and op.server == task.rank
        }
        parameters = np.zeros(task.elements, np.int32)
        self._shards = {
            (unit, chunk): (span, Shard(parameters[span], plan.workers, plan.consistency))
            for (unit, chunk), span in _spans(task).items()
            if chunk in served
        }
        self._takes_turns = plan.consistency.turns
        self._turn = self._pushed = 0
        self._mesh = Mesh(task.rank, task.addresses)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._mesh, selectors.EVENT_READ)

    def connect(self) -> None:
        self._mesh.connect(range(self._task.plan.workers))
        if self._takes_turns:
            self._give_turn()

    def run(self, orders: Connection) -> Outcome:
        """Serve until anything arrives on ``orders``."""
        self._selector.register(orders, selectors.EVENT_READ)
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is orders:
                    orders.recv()
                    return self._account()
                self._serve()

    def close(self) -> None:
        self._mesh.close()
        self._selector.close()

    def _serve(self) -> None:
        units = len(self._task.units)
        for source, number, chunk, gradient in self._mesh.poll():
            unit = number % units
            _, shard = self._shards[unit, chunk]
            for worker in shard.push(source, gradient):
                answer = np.append(shard.parameters, np.array(shard.counts, np.int32))
                # Its last update is the one to answer: it has no newer one on its way.
                last = shard.counts[worker] - 1
                self._mesh.send(worker, last * units + unit, chunk, answer)
            self._pushed += 1
            if self._takes_turns and self._pushed % len(self._shards) == 0:
                self._turn = (self._turn + 1) % self._task.plan.workers
                self._give_turn()

    def _give_turn(self) -> None:
        self._mesh.send(self._turn, 0, 0, np.zeros(1, np.int32))

    def _account(self) -> Outcome:
        outcome = Outcome(self._task.rank)
        everything = [self._task.iterations] * self._task.plan.workers
        for span, shard in self._shards.values():
            outcome.checked += shard.parameters.size
            if shard.counts == everything:
                outcome.wrong += _wrong(self._task, shard.parameters, everything, span)
            else:
                outcome.wrong += shard.parameters.size
        return outcome


def _spans(task: Task) -> dict[tuple[int, int], slice]:
    """Where each chunk of each unit lies in the flat gradient, by (unit, chunk)."""
    spans = {}
    for number, unit in enumerate(task.units):
        cuts = task.plan.cuts(unit.elements, 1)
        for chunk in range(task.plan.chunks):
            spans[number, chunk] = slice(unit.offset + cuts[chunk], unit.offset + cuts[chunk + 1])
    return spans


def _wrong(task: Task, found: Values, counts: Sequence[int], span: slice) -> int:
    expected = task.gradients.accumulated(counts, span.start, span.stop)
    return int(np.count_nonzero(found != expected))
