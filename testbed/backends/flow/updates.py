"""Parameters at servers, which workers update on their own account: ASP, SSP and R2SP."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise

from testbed.backends.flow.agenda import Agenda
from testbed.backends.flow.channels import Channels
from testbed.backends.flow.routes import Ways
from testbed.backends.flow.scenario import Job
from testbed.plan.program import Update


class Gate:
    """Who is answered when, at one shard: as `Consistency` has it, without asking about everyone.

    ``staleness`` is how many updates a worker may be ahead of the slowest, None any number.
    """

    def __init__(self, staleness: int | None, workers: int) -> None:
        self._staleness = staleness
        self._counts = [0] * workers
        self._least = 0
        self._having = Counter({0: workers})
        self._unanswered: dict[int, list[int]] = defaultdict(list)

    def push(self, worker: int) -> Iterator[int]:
        """Take an update; yield each worker that is to be answered now."""
        count = self._counts[worker] = self._counts[worker] + 1
        if self._staleness is None:
            yield worker
            return
        self._having[count] += 1
        self._having[count - 1] -= 1
        self._unanswered[count].append(worker)
        while not self._having[self._least]:
            del self._having[self._least]
            self._least += 1
        for ahead in sorted(self._unanswered):
            if ahead - self._least <= self._staleness:
                yield from self._unanswered.pop(ahead)


class Turns:
    """Whose turn it is to push a whole iteration's gradient, at each of the servers by itself."""

    def __init__(self, workers: int, messages: dict[int, int]) -> None:
        self._workers, self._messages = workers, messages
        self._pushed = dict.fromkeys(messages, 0)
        self._had = [dict.fromkeys(messages, 0) for _ in range(workers)]
        for server in messages:
            self._had[0][server] = 1

    def has(self, worker: int, iteration: int) -> bool:
        """Whether all servers have told ``worker`` that it may push."""
        return min(self._had[worker].values()) > iteration

    def pushed(self, server: int) -> int | None:
        """One more message has come to ``server``: whom it tells now that it is their turn."""
        self._pushed[server] += 1
        turns, rest = divmod(self._pushed[server], self._messages[server])
        return None if rest else turns % self._workers

    def tell(self, worker: int, server: int) -> None:
        self._had[worker][server] += 1


class Updates:
    """Every worker pushes its units to the servers, and goes on when all answers are there.

    Push and answer each cost ``step_s`` before they leave. ``finished(rank, number)`` is called
    when a unit's answers have all come.
    """

    def __init__(
        self,
        job: Job,
        ways: Ways,
        channels: Channels,
        agenda: Agenda,
        finished: Callable[[int, int], None],
    ) -> None:
        plan, consistency = job.plan, job.plan.consistency
        assert consistency is not None
        self._job, self._plan, self._staleness = job, plan, consistency.staleness
        self._channels, self._agenda, self._finished = channels, agenda, finished
        self._line = cache(lambda source, to: channels.line(ways.stream(source, to)))
        cuts = (plan.cuts(unit.elements, 1) for unit in job.units)
        self._sizes = [[4 * (end - start) for start, end in pairwise(each)] for each in cuts]
        self._gates: dict[tuple[int, int], Gate] = {}
        self._missing: dict[tuple[int, int], int] = {}
        self._number: dict[tuple[int, int, int], int] = {}
        self._held: dict[int, list[int]] = defaultdict(list)
        self._turns: Turns | None = None
        if consistency.turns:
            served = Counter(op.server for op in plan.programs[0] if isinstance(op, Update))
            messages = {server: count * len(job.units) for server, count in served.items()}
            self._turns = Turns(plan.workers, messages)

    def begin(self, rank: int, number: int) -> None:
        if self._turns is None or self._turns.has(rank, number // len(self._sizes)):
            self._agenda.after(self._job.step_s, self._push, rank, number)
        else:
            self._held[rank].append(number)

    def _push(self, rank: int, number: int) -> None:
        program, unit = self._plan.programs[rank], number % len(self._sizes)
        self._missing[rank, number] = len(program)
        for update in program:
            assert isinstance(update, Update)
            self._number[rank, unit, update.chunk] = number
            line, size = self._line(rank, update.server), self._sizes[unit][update.chunk]
            self._channels.send(line, size, self._pushed, rank, unit, update)

    def _pushed(self, rank: int, unit: int, update: Update) -> None:
        gate = self._gates.get((unit, update.chunk))
        if gate is None:
            gate = self._gates[unit, update.chunk] = Gate(self._staleness, self._plan.workers)
        for worker in gate.push(rank):
            self._agenda.after(self._job.step_s, self._answer, worker, unit, update)
        if self._turns is not None and (after := self._turns.pushed(update.server)) is not None:
            line = self._line(update.server, after)
            self._channels.send(line, 0.0, self._told, after, update.server)

    def _told(self, worker: int, server: int) -> None:
        assert self._turns is not None
        self._turns.tell(worker, server)
        held, self._held[worker] = self._held[worker], []
        for number in held:
            self.begin(worker, number)

    def _answer(self, worker: int, unit: int, update: Update) -> None:
        line, size = self._line(update.server, worker), self._sizes[unit][update.chunk]
        number = self._number[worker, unit, update.chunk]
        self._channels.send(line, size, self._answered, worker, number)

    def _answered(self, worker: int, number: int) -> None:
        self._missing[worker, number] -= 1
        if not self._missing[worker, number]:
            del self._missing[worker, number]
            self._finished(worker, number)
