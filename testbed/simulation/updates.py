"""Parameters at servers, which workers update on their own account: ASP, SSP and R2SP."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise

from testbed.plan.program import Consistency, Update
from testbed.simulation.agenda import Agenda
from testbed.simulation.channels import Channels
from testbed.simulation.routes import Routes
from testbed.simulation.scenario import Job


class Gate:
    """Who is answered when, at one shard: `Consistency`, without asking it about every worker."""

    def __init__(self, consistency: Consistency, workers: int) -> None:
        self._consistency = consistency
        self._counts = [0] * workers
        self._least = 0
        self._having = Counter({0: workers})
        self._early: set[int] = set()
        self._turn = 0
        self._unanswered: dict[int, list[int]] = defaultdict(list)

    def push(self, worker: int) -> Iterator[int]:
        """Take an update; yield each worker that is to be answered now."""
        if not self._consistency.turns:
            yield from self._add(worker)
            return
        self._early.add(worker)
        while self._turn in self._early:
            self._early.remove(self._turn)
            yield from self._add(self._turn)
            self._turn = (self._turn + 1) % len(self._counts)

    def _add(self, worker: int) -> Iterator[int]:
        count = self._counts[worker] = self._counts[worker] + 1
        self._having[count] += 1
        self._having[count - 1] -= 1
        staleness = self._consistency.staleness
        if staleness is None:
            yield worker
            return
        self._unanswered[count].append(worker)
        while not self._having[self._least]:
            del self._having[self._least]
            self._least += 1
        for ahead in sorted(self._unanswered):
            if ahead - self._least <= staleness:
                yield from self._unanswered.pop(ahead)


class Updates:
    """Every worker pushes its units to the servers, and goes on when all answers are there.

    Push and answer each cost ``step_s`` before they leave. ``finished(rank)`` is called when a
    unit's answers have all come.
    """

    def __init__(
        self,
        job: Job,
        name: str,
        routes: Routes,
        channels: Channels,
        agenda: Agenda,
        finished: Callable[[int], None],
    ) -> None:
        assert job.plan.consistency is not None
        self._job, self._plan, self._name = job, job.plan, name
        self._consistency = job.plan.consistency
        self._routes, self._channels, self._agenda = routes, channels, agenda
        self._finished = finished
        self._sizes = [
            [4 * (end - start) for start, end in pairwise(cuts)]
            for cuts in (job.plan.cuts(unit.elements, 1) for unit in job.units)
        ]
        self._lines: dict[tuple[int, int], int] = {}
        self._gates: dict[tuple[int, int], Gate] = {}
        self._missing: dict[tuple[int, int], int] = {}
        self._number: dict[tuple[int, int, int], int] = {}

    def begin(self, rank: int, number: int) -> None:
        program = self._plan.programs[rank]
        self._missing[rank, number] = len(program)
        for update in program:
            assert isinstance(update, Update)
            self._agenda.after(self._job.step_s, self._push, rank, update, number)

    def _push(self, rank: int, update: Update, number: int) -> None:
        unit = number % len(self._sizes)
        self._number[rank, unit, update.chunk] = number
        line = self._line(rank, update.server)
        size = self._sizes[unit][update.chunk]
        self._channels.send(line, size, self._pushed, rank, unit, update)

    def _pushed(self, rank: int, unit: int, update: Update) -> None:
        gate = self._gates.get((unit, update.chunk))
        if gate is None:
            gate = self._gates[unit, update.chunk] = Gate(self._consistency, self._plan.workers)
        for worker in gate.push(rank):
            self._agenda.after(self._job.step_s, self._answer, worker, unit, update)

    def _answer(self, worker: int, unit: int, update: Update) -> None:
        line = self._line(update.server, worker)
        number = self._number[worker, unit, update.chunk]
        size = self._sizes[unit][update.chunk]
        self._channels.send(line, size, self._answered, worker, number)

    def _answered(self, worker: int, number: int) -> None:
        self._missing[worker, number] -= 1
        if not self._missing[worker, number]:
            del self._missing[worker, number]
            self._finished(worker)

    def _line(self, source: int, to: int) -> int:
        if (source, to) not in self._lines:
            hosts = self._plan.hosts
            demand = self._routes.stream(hosts[source], hosts[to], self._name)
            self._lines[source, to] = self._channels.line(demand)
        return self._lines[source, to]
