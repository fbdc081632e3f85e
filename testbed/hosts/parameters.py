"""Parameters at servers, which each worker updates independently: ASP, SSP and R2SP.

A worker sends a chunk of its gradient. The server adds it to its parameters, int32 with
wrap-around, and answers with them once the plan's consistency allows. An answer says how many
updates of each worker its parameters contain. So each answer can be checked bit for bit, in
whatever order the updates came.

If workers take turns, a server gives the turn to the next worker as soon as it has everything that
the previous one pushes to it in an iteration.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator, Sequence

import numpy as np

from testbed.hosts.messages import Answer, Chunk, Message, Turn, Values
from testbed.hosts.task import RankOutcome, Task
from testbed.hosts.transport import AT_ONCE, NEVER, Steps, Transport
from testbed.plan.program import Consistency, Update
from testbed.protocols.parameters.gate import Gate, Pieces, Rotation, Turns
from testbed.workload.gradients import Gradients
from testbed.workload.iteration import IterationTimes, UnitTimes, UpdateTimes


class Shard:
    """One chunk of one unit at its server: parameters, and the updates that they contain."""

    def __init__(self, parameters: Values, workers: int, consistency: Consistency) -> None:
        self.parameters = parameters
        self._gate = Gate(consistency, workers)
        self._early: dict[int, Values] = {}

    @property
    def counts(self) -> list[int]:
        return self._gate.counts

    def push(self, worker: int, gradient: Values) -> Iterator[tuple[int, Sequence[int]]]:
        """Take an update. For each worker whose update is added now, yield that worker and the
        workers to be answered with the shard's state at that moment.

        Nothing more is added until the caller takes the next one.
        """
        self._early[worker] = gradient
        for added, answered in self._gate.push(worker):
            self.parameters += self._early.pop(added)
            yield added, answered


def may_hold(consistency: Consistency, counts: Sequence[int], worker: int, own: int) -> bool:
    """Whether an answer to update number ``own`` (from 1) of ``worker`` may contain ``counts``."""
    if counts[worker] != own or min(counts) < 0:
        return False
    if consistency.turns:
        return all(count == own - (rank > worker) for rank, count in enumerate(counts))
    return consistency.may_answer(counts, worker)


class Worker:
    """Computes (waits), pushes each unit once it is ready, and checks everything it pulls."""

    def __init__(self, task: Task, transport: Transport) -> None:
        assert task.plan.consistency is not None
        self._task, self._transport = task, transport
        self._consistency = task.plan.consistency
        self._outcome = RankOutcome(task.rank)
        self._gradient = np.zeros(task.layout.elements, np.int32)
        self._pulled = np.zeros(task.layout.elements, np.int32)
        self._spans = _spans(task)
        self._counts: dict[tuple[int, int], Sequence[int]] = {}
        self._pieces = Pieces(task.plan, task.rank, len(task.units))
        self._missing: dict[int, int] = {}
        self._begun: dict[int, float] = {}
        self.peers = self._pieces.servers
        self._turns = Turns(self.peers)

    def steps(self, start: float) -> Steps:
        """All iterations, the first from ``start`` and the task's own delay after that."""
        task, gradients = self._task, self._task.gradients
        start += task.start_s
        for iteration, pace in enumerate(task.paces):
            if gradients is not None:
                gradients.fill(task.rank, iteration, self._gradient)
            compute_end = start + task.compute_s * pace
            ready = [start + unit.ready_s * pace for unit in task.units]
            if self._consistency.turns:
                # A turn that waited for a backward pass would delay all workers.
                ready = [max(ready)] * len(self._pieces)
            end = yield from self._update(iteration, ready, compute_end)
            self._outcome.iterations.append(IterationTimes(start, compute_end, end))
            # Checking and filling run while the next iteration "computes".
            if gradients is not None:
                self._check(iteration, gradients)
            start = end

    def outcome(self) -> RankOutcome:
        self._transport.account(self._outcome)
        return self._outcome

    def _update(
        self, iteration: int, ready: Sequence[float], compute_end: float
    ) -> Generator[float, float, float]:
        """Push each piece when it is ready, and pull all of them. Returns the time when both this
        and the computation have ended."""
        credit = self._task.plan.pipelining.credit or len(ready)
        begun = 0
        leaving: deque[tuple[float, int]] = deque()
        until = AT_ONCE
        while True:
            now = yield until
            moved = self._pull(iteration, now)
            while (
                begun < len(ready)
                and ready[begun] <= now
                and len(self._missing) < credit
                and self._pieces.may_begin(begun, begun - len(self._missing))
                and self._has_turn(iteration, begun)
            ):
                self._missing[begun] = len(self._pieces.updates(begun))
                self._begun[begun] = now
                leaving.append((now + self._task.step_s, begun))
                begun += 1
            while leaving and leaving[0][0] <= now:
                self._push(iteration, leaving.popleft()[1])
            if moved:
                until = AT_ONCE
                continue
            if begun == len(ready) and not self._missing and now >= compute_end:
                return now
            awaited = [compute_end, *ready[begun : begun + 1], *(at for at, _ in leaving)]
            until = min((at for at in awaited if at > now), default=NEVER)

    def _has_turn(self, iteration: int, piece: int) -> bool:
        return not self._consistency.turns or all(
            self._turns.has(update.server, iteration) for update in self._pieces.updates(piece)
        )

    def _push(self, iteration: int, piece: int) -> None:
        unit = self._pieces.unit(piece)
        number = iteration * len(self._task.units) + unit
        for update in self._pieces.updates(piece):
            values = self._gradient[self._spans[unit, update.chunk]]
            self._transport.send(update.server, Chunk(number, update.chunk, values))

    def _pull(self, iteration: int, now: float) -> bool:
        """Take everything that has arrived; returns whether there was anything."""
        some = False
        for server, message in self._transport.arrived():
            some = True
            if isinstance(message, Turn):
                self._turns.told(server)
                continue
            assert isinstance(message, Answer)
            unit = message.unit - iteration * len(self._task.units)
            self._pulled[self._spans[unit, message.chunk]] = message.values
            self._counts[unit, message.chunk] = message.counts
            piece = self._pieces.holding(unit, message.chunk)
            self._missing[piece] -= 1
            if not self._missing[piece]:
                del self._missing[piece]
                if self._task.times_units:
                    times = UnitTimes(iteration, unit, self._begun[piece], now)
                    self._outcome.units.append(times)
        return some

    def _check(self, iteration: int, gradients: Gradients) -> None:
        for piece, span in self._spans.items():
            counts, pulled = self._counts[piece], self._pulled[span]
            self._outcome.checked += pulled.size
            if may_hold(self._consistency, counts, self._task.rank, iteration + 1):
                self._outcome.wrong += _wrong(gradients, pulled, counts, span)
            else:
                self._outcome.wrong += pulled.size


class Server:
    """Adds and answers until it is stopped, then checks that it has every update."""

    takes = True

    def __init__(self, task: Task, transport: Transport) -> None:
        plan = task.plan
        assert plan.consistency is not None
        self._task, self._transport = task, transport
        served = {
            op.chunk
            for ops in plan.programs
            for op in ops
            if isinstance(op, Update) and op.server == task.rank
        }
        parameters = np.zeros(task.layout.elements, np.int32)
        self._shards = {
            (unit, chunk): (span, Shard(parameters[span], plan.workers, plan.consistency))
            for (unit, chunk), span in _spans(task).items()
            if chunk in served
        }
        self._takes_turns = plan.consistency.turns
        self._rotation = Rotation(plan.workers, len(self._shards))
        self._updates: list[UpdateTimes] = []
        self.peers = range(plan.workers)

    def steps(self, start: float) -> Steps:
        if self._takes_turns:
            self._transport.send(0, Turn())
        while True:
            now = yield NEVER
            for source, message in self._transport.arrived():
                self.take(source, message, now)

    def take(self, source: int, message: Message, now: float) -> bool:
        """See `testbed.hosts.transport.Taker`."""
        assert isinstance(message, Chunk)
        units = len(self._task.units)
        unit = message.unit % units
        _, shard = self._shards[unit, message.chunk]
        pushed = shard.push(source, message.values)
        # Before the answers, so that the next worker's push overlaps them.
        if self._takes_turns and (after := self._rotation.pushed()) is not None:
            self._transport.send(after, Turn())
        for added, answered in pushed:
            if self._task.notes_updates:
                noted = UpdateTimes(now, unit, message.chunk, added, tuple(answered))
                self._updates.append(noted)
            for worker in answered:
                # Answer the worker's last update: it has no newer one in flight.
                number = (shard.counts[worker] - 1) * units + unit
                answer = Answer(number, message.chunk, shard.parameters, shard.counts)
                self._transport.send(worker, answer)
        return False

    def outcome(self) -> RankOutcome:
        outcome = RankOutcome(self._task.rank, updates=self._updates)
        gradients = self._task.gradients
        self._transport.account(outcome)
        if gradients is None:
            return outcome
        everything = [self._task.iterations] * self._task.plan.workers
        for span, shard in self._shards.values():
            outcome.checked += shard.parameters.size
            if shard.counts == everything:
                outcome.wrong += _wrong(gradients, shard.parameters, everything, span)
            else:
                outcome.wrong += shard.parameters.size
        return outcome


def _spans(task: Task) -> dict[tuple[int, int], slice]:
    """Each chunk's slice of the flat gradient, by (unit, chunk)."""
    return {
        (number, chunk): task.layout.chunk(number, chunk)
        for number in range(len(task.units))
        for chunk in range(task.plan.chunks)
    }


def _wrong(gradients: Gradients, found: Values, counts: Sequence[int], span: slice) -> int:
    expected = gradients.accumulated(counts, span.start, span.stop)
    return int(np.count_nonzero(found != expected))
