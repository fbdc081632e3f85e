"""Runs a plan's program at one rank, for any number of units at a time.

A unit is the piece of a gradient that runs the program on its own: a bucket, or a partition
of one. Within a unit each chunk follows the program's order; chunks and units are independent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from testbed.hosts.messages import Chunk, Values
from testbed.plan.program import Operation, Plan, Receive, Send, TreeOperation


class Interpreter:
    """Executes rank ``rank``'s program.

    Args:
        plan, rank: the plan, and the rank whose program runs.
        cuts: ``cuts(unit)`` gives where each chunk of a unit begins, and where the last one ends.
        send: ``send(to, chunk)`` must copy what it cannot send at once.
        aggregate: ``aggregate(operation, unit, values)`` starts an operation on a tree; the
            caller reports its end to :meth:`completed`.
        finished: called when a unit's program has ended.
        later: if given, ``later(unit, chunk)`` is called before every transfer, which waits until
            the caller calls :meth:`resume`.
    """

    def __init__(
        self,
        plan: Plan,
        rank: int,
        cuts: Callable[[int], Sequence[int]],
        send: Callable[[int, Chunk], None],
        aggregate: Callable[[TreeOperation, int, Values], None],
        finished: Callable[[int], None],
        later: Callable[[int, int], None] | None = None,
    ) -> None:
        self._plan, self._cuts = plan, cuts
        self._send, self._aggregate, self._finished = send, aggregate, finished
        self._later = later
        self._programs: list[list[list[Operation]]] = []
        self.receivers: set[int] = set()
        for collective, _ in plan.collectives:
            by_chunk: list[list[Operation]] = [[] for _ in range(plan.chunks)]
            for operation in collective.programs[rank]:
                by_chunk[operation.chunk].append(operation)
                if isinstance(operation, Send):
                    self.receivers.add(operation.to)
            self._programs.append(by_chunk)
        self._units: dict[int, _Unit] = {}
        self._early: dict[tuple[int, int, int], Values] = {}

    def begin(self, unit: int, values: Values, gathers: bool = False) -> None:
        """Start a unit on ``values``, shape (elements,), which the sum replaces in place. If it
        ``gathers`` parameters, it runs the plan's program for gathering."""
        cuts = self._cuts(unit)
        self._units[unit] = _Unit(
            self._programs[gathers],
            [values[cuts[chunk] : cuts[chunk + 1]] for chunk in range(self._plan.chunks)],
        )
        for chunk, program in enumerate(self._programs[gathers]):
            if program:
                self._advance(unit, chunk)
        self._retire(unit)

    def has_begun(self, unit: int) -> bool:
        return unit in self._units

    def arrived(self, source: int, message: Chunk) -> None:
        """A chunk came from rank ``source``; it is kept until the program receives it."""
        unit, chunk, values = message
        self._early[unit, chunk, source] = values
        if unit in self._units:
            self._advance(unit, chunk)
            self._retire(unit)

    def completed(self, unit: int, chunk: int) -> None:
        """The chunk's current operation on a tree is done."""
        self._units[unit].step(chunk)
        self._advance(unit, chunk)
        self._retire(unit)

    def resume(self, unit: int, chunk: int) -> None:
        """The chunk's current transfer has waited long enough."""
        state = self._units[unit]
        state.waited[chunk], state.busy[chunk] = True, False
        self._advance(unit, chunk)
        self._retire(unit)

    def _advance(self, unit: int, chunk: int) -> None:
        state = self._units[unit]
        if state.busy[chunk]:
            return  # a message for a later operation
        program, values, position = state.program[chunk], state.chunks[chunk], state.position
        while position[chunk] < len(program):
            operation = program[position[chunk]]
            if isinstance(operation, Receive):
                received = self._early.pop((unit, chunk, operation.source), None)
                if received is None:
                    return
                if operation.reduce:
                    values += received
                else:
                    values[:] = received
            elif self._later is not None and not state.waited[chunk]:
                state.busy[chunk] = True
                self._later(unit, chunk)
                return
            elif isinstance(operation, Send):
                self._send(operation.to, Chunk(unit, chunk, values))
            else:
                assert isinstance(operation, TreeOperation)
                state.busy[chunk] = True
                self._aggregate(operation, unit, values)
                return
            position[chunk] += 1
            state.waited[chunk] = False
            state.left -= 1

    def _retire(self, unit: int) -> None:
        state = self._units.get(unit)
        if state is not None and not state.left:
            del self._units[unit]
            self._finished(unit)


class _Unit:
    """Progress of one unit: each chunk's operations, its values, its position in them, and how many
    operations are left in all. A chunk is ``busy`` while its current operation waits or is on a
    tree."""

    __slots__ = ("busy", "chunks", "left", "position", "program", "waited")

    def __init__(self, program: list[list[Operation]], chunks: list[Values]) -> None:
        self.program, self.chunks = program, chunks
        self.left = sum(map(len, program))
        self.position = [0] * len(chunks)
        self.waited = [False] * len(chunks)
        self.busy = [False] * len(chunks)

    def step(self, chunk: int) -> None:
        self.position[chunk] += 1
        self.waited[chunk] = self.busy[chunk] = False
        self.left -= 1
