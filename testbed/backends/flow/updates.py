"""Parameters at servers, which workers update without an all-reduce: ASP, SSP and R2SP."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from functools import cache
from itertools import pairwise

from testbed.backends.flow.agenda import Agenda
from testbed.backends.flow.channels import Channels
from testbed.backends.flow.routes import Ways
from testbed.backends.flow.scenario import Job
from testbed.plan.program import Update
from testbed.protocols.parameters.gate import Gate, Pieces, Rotation, Turns
from testbed.workload.iteration import UpdateTimes


class Updates:
    """Every worker pushes its pieces to the servers, and continues when all answers have arrived.

    Pushes and answers each leave ``step_s`` late. ``finished(rank, number)`` is called when all
    answers to a piece have arrived. ``noted`` has every update, if the job asks for that.
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
        self._job, self._plan, self._consistency = job, plan, consistency
        self._channels, self._agenda, self._finished = channels, agenda, finished
        self._line = cache(lambda source, to: channels.line(ways.stream(source, to)))
        cuts = (plan.cuts(unit.elements, 1) for unit in job.units)
        self._sizes = [[4 * (end - start) for start, end in pairwise(each)] for each in cuts]
        self._gates: dict[tuple[int, int], Gate] = {}
        self._missing: dict[tuple[int, int], int] = {}
        self._number: dict[tuple[int, int, int], int] = {}
        self._held: dict[int, list[int]] = defaultdict(list)
        self._done = [0] * plan.workers
        served = Counter(op.server for op in plan.programs[0] if isinstance(op, Update))
        self._rotations = {
            server: Rotation(plan.workers, count * len(job.units))
            for server, count in served.items()
        }
        self.noted: list[UpdateTimes] = []
        self._pieces = [Pieces(plan, rank, len(job.units)) for rank in range(plan.workers)]
        self._turns = [Turns(served) for _ in range(plan.workers)]
        for server in served:
            self._turns[0].told(server)

    def begin(self, rank: int, number: int) -> None:
        pieces, turns = self._pieces[rank], self._turns[rank]
        iteration, piece = divmod(number, len(pieces))
        answered = self._done[rank] - iteration * len(pieces)
        if not self._consistency.turns or (
            pieces.may_begin(piece, answered)
            and all(turns.has(update.server, iteration) for update in pieces.updates(piece))
        ):
            self._agenda.after(self._job.step_s, self._push, rank, number)
        else:
            self._held[rank].append(number)

    def _push(self, rank: int, number: int) -> None:
        pieces = self._pieces[rank]
        piece = number % len(pieces)
        unit, updates = pieces.unit(piece), pieces.updates(piece)
        self._missing[rank, number] = len(updates)
        for update in updates:
            self._number[rank, unit, update.chunk] = number
            line, size = self._line(rank, update.server), self._sizes[unit][update.chunk]
            self._channels.send(line, size, self._pushed, rank, unit, update)

    def _pushed(self, rank: int, unit: int, update: Update) -> None:
        gate = self._gates.get((unit, update.chunk))
        if gate is None:
            gate = self._gates[unit, update.chunk] = Gate(self._consistency, self._plan.workers)
        for added, answered in gate.push(rank):
            if self._job.notes_updates:
                self.noted.append(
                    UpdateTimes(self._agenda.now, unit, update.chunk, added, tuple(answered))
                )
            for worker in answered:
                self._agenda.after(self._job.step_s, self._answer, worker, unit, update)
        if not self._consistency.turns:
            return
        if (after := self._rotations[update.server].pushed()) is not None:
            line = self._line(update.server, after)
            self._channels.send(line, 0.0, self._told, after, update.server)

    def _told(self, worker: int, server: int) -> None:
        self._turns[worker].told(server)
        self._retry(worker)

    def _retry(self, worker: int) -> None:
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
            self._done[worker] += 1
            self._finished(worker, number)
            self._retry(worker)
