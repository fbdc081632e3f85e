"""A plan's programs, operation by operation, at every rank."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, cached_property

from testbed.backends.flow.agenda import Agenda
from testbed.backends.flow.channels import Channels
from testbed.backends.flow.routes import Ways
from testbed.backends.flow.scenario import Job
from testbed.plan.program import Operation, Program, Receive, Send, TreeOperation
from testbed.plan.units import grain, in_packets

Place = tuple[int, int, int]
"""Rank, number of the unit, chunk."""


@dataclass
class _Turns:
    """The operations on a tree, one after another: unit by unit, in the program's order.

    ``order``: the turn of each operation, together with its unit's place in an iteration.
    """

    order: dict[tuple[int, TreeOperation], int]
    waiting: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    next: int = 0

    @cached_property
    def uses(self) -> list[tuple[int, TreeOperation]]:
        """The operations in that order, each with the place of its unit in an iteration."""
        return list(self.order)


class Programs:
    """Runs every rank's program on simulated transfers, as the hosts' interpreter does on real
    ones.

    A rank waits for ``step_s`` before it forwards what it has received, and only once if it then
    sends to several ranks. ``finished(rank, number)`` is called when a worker's unit has ended.
    """

    def __init__(
        self,
        job: Job,
        ways: Ways,
        channels: Channels,
        agenda: Agenda,
        finished: Callable[[int, int], None],
    ) -> None:
        self._job, self._plan = job, job.plan
        self._channels, self._agenda, self._finished = channels, agenda, finished
        self._line = cache(lambda source, to: channels.line(ways.stream(source, to)))
        self._tree_lines: dict[tuple[int, type], int] = {}
        self._on_tree = ways.on_tree
        self._values = ways.framing.values
        self._grain = grain(job.plan, self._values)
        plan = job.plan
        self._gathers = [unit.gathers for unit in job.units]
        self._codes = [
            [_by_chunk(collective.programs[rank]) for rank in plan.ranks]
            for collective, _ in plan.collectives
        ]
        self._sizes = [self._cut(unit.elements) for unit in job.units]
        self._turns = [_Turns(self._order(index)) for index in range(len(plan.trees))]
        self._participants = [tuple(sorted(tree.participants)) for tree in plan.trees]
        self._position: dict[Place, int] = {}
        self._unfinished: dict[tuple[int, int], int] = {}
        self._early: set[tuple[int, int, int, int]] = set()
        self._waited: set[Place] = set()
        self._busy: set[Place] = set()  # their current operations wait, or are on trees
        self._served = -1

    def _code(self, rank: int, number: int) -> dict[int, list[Operation]]:
        """The operations of ``rank`` on each chunk of a unit."""
        return self._codes[self._gathers[number % len(self._gathers)]][rank]

    def _order(self, tree: int) -> dict[tuple[int, TreeOperation], int]:
        """The turn of each operation on ``tree``, with its unit's place in an iteration."""
        someone = min(self._plan.trees[tree].participants)
        uses = [
            [op for op in of if isinstance(op, TreeOperation) and op.tree == tree]
            for of in (each.programs[someone] for each, _ in self._plan.collectives)
        ]
        turns = ((at, op) for at, gathers in enumerate(self._gathers) for op in uses[gathers])
        return {use: turn for turn, use in enumerate(turns)}

    def _cut(self, elements: int) -> list[int]:
        cuts = self._plan.cuts(elements, self._grain)
        return [cuts[chunk + 1] - cuts[chunk] for chunk in range(self._plan.chunks)]

    def begin(self, rank: int, number: int) -> None:
        """Start a unit at a worker. The servers start it before that."""
        while self._served < number:
            self._served += 1
            for server in range(self._plan.workers, len(self._plan.hosts)):
                self._start(server, self._served)
        self._start(rank, number)

    def _start(self, rank: int, number: int) -> None:
        code = self._code(rank, number)
        self._unfinished[rank, number] = len(code)
        if not code:
            self._retire(rank, number)
        for chunk in code:
            self._position[rank, number, chunk] = 0
        for chunk in code:
            self._advance((rank, number, chunk))

    def _advance(self, place: Place) -> None:
        if place in self._busy:
            return  # a message for a later operation
        rank, number, chunk = place
        code, at = self._code(rank, number)[chunk], self._position[place]
        while at < len(code):
            operation = code[at]
            if isinstance(operation, Receive):
                arrival = (rank, number, chunk, operation.source)
                if arrival not in self._early:
                    break
                self._early.remove(arrival)
                self._waited.discard(place)
            elif self._job.step_s > 0 and place not in self._waited:
                self._busy.add(place)
                self._agenda.after(self._job.step_s, self._resume, place)
                break
            elif isinstance(operation, Send):
                size = 4 * self._sizes[number % len(self._sizes)][chunk]
                line = self._line(rank, operation.to)
                self._channels.send(line, size, self._arrived, operation.to, number, chunk, rank)
            else:
                assert isinstance(operation, TreeOperation)
                self._position[place] = at
                self._busy.add(place)
                self._come_to(operation, number)
                return
            at += 1
        self._position[place] = at
        if at == len(code):
            del self._position[place]
            self._waited.discard(place)
            self._unfinished[rank, number] -= 1
            if not self._unfinished[rank, number]:
                self._retire(rank, number)

    def _retire(self, rank: int, number: int) -> None:
        del self._unfinished[rank, number]
        if rank < self._plan.workers:
            self._finished(rank, number)

    def _resume(self, place: Place) -> None:
        self._waited.add(place)
        self._busy.discard(place)
        self._advance(place)

    def _arrived(self, rank: int, number: int, chunk: int, source: int) -> None:
        self._early.add((rank, number, chunk, source))
        if (rank, number, chunk) in self._position:
            self._advance((rank, number, chunk))

    def _come_to(self, operation: TreeOperation, number: int) -> None:
        """Note that one more rank is ready for ``operation``, which runs when all are and its turn
        has come."""
        turns = self._turns[operation.tree]
        iteration, at = divmod(number, len(self._gathers))
        turns.waiting[iteration * len(turns.order) + turns.order[at, operation]] += 1
        everyone = len(self._participants[operation.tree])
        while turns.waiting.get(turns.next) == everyone:
            del turns.waiting[turns.next]
            iteration, turn = divmod(turns.next, len(turns.order))
            at, next_one = turns.uses[turn]
            self._run(next_one, iteration * len(self._gathers) + at)
            turns.next += 1

    def _run(self, operation: TreeOperation, number: int) -> None:
        key = operation.tree, type(operation)
        if key not in self._tree_lines:
            self._tree_lines[key] = self._channels.line(self._on_tree(operation))
        elements = self._sizes[number % len(self._sizes)][operation.chunk]
        size = 4 * in_packets(elements, self._values)
        self._channels.send(self._tree_lines[key], size, self._completed, operation, number)

    def _completed(self, operation: TreeOperation, number: int) -> None:
        for rank in self._participants[operation.tree]:
            place = rank, number, operation.chunk
            self._position[place] += 1
            self._waited.discard(place)
            self._busy.discard(place)
            self._advance(place)


def _by_chunk(program: Program) -> dict[int, list[Operation]]:
    code: dict[int, list[Operation]] = defaultdict(list)
    for operation in program:
        code[operation.chunk].append(operation)
    return dict(code)
