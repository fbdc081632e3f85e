"""Runs a plan's program at one rank, for any number of units at a time.

A unit is the piece of a gradient that runs the program on its own: a bucket, or a partition
of one. Within a unit each chunk follows the program's order; chunks and units are independent.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from testbed.plan.program import Operation, Plan, Receive, Send

Values = npt.NDArray[np.int32]


class Interpreter:
    """Executes rank ``rank``'s program.

    ``send(to, unit, chunk, values)`` must copy what it cannot send at once. ``aggregate(unit,
    chunk)`` starts a switch all-reduce, whose end is told by :meth:`aggregated`. ``finished(unit)``
    is called when a unit's program has ended.
    """

    def __init__(
        self,
        plan: Plan,
        rank: int,
        send: Callable[[int, int, int, Values], None],
        aggregate: Callable[[int, int], None],
        finished: Callable[[int], None],
    ) -> None:
        self._chunks = plan.chunks
        self._send, self._aggregate, self._finished = send, aggregate, finished
        self._program: list[list[Operation]] = [[] for _ in range(plan.chunks)]
        for operation in plan.programs[rank]:
            self._program[operation.chunk].append(operation)
        self._units: dict[int, _Unit] = {}
        self._early: dict[tuple[int, int, int], Values] = {}

    def begin(self, unit: int, values: Values) -> None:
        """Start a unit on ``values``, shape (elements,), elements a multiple of the chunks.

        The sum replaces the gradients in place.
        """
        self._units[unit] = _Unit(values.reshape(self._chunks, -1), [0] * self._chunks)
        for chunk in range(self._chunks):
            self._advance(unit, chunk)
        self._retire(unit)

    def has_begun(self, unit: int) -> bool:
        return unit in self._units

    def arrived(self, source: int, unit: int, chunk: int, values: Values) -> None:
        """A chunk came from rank ``source``; it waits here until the program asks for it."""
        self._early[unit, chunk, source] = values
        if unit in self._units:
            self._advance(unit, chunk)
            self._retire(unit)

    def aggregated(self, unit: int, chunk: int) -> None:
        """The switch all-reduce of this chunk is done and its sum in place."""
        self._units[unit].position[chunk] += 1
        self._advance(unit, chunk)
        self._retire(unit)

    def _advance(self, unit: int, chunk: int) -> None:
        state, program = self._units[unit], self._program[chunk]
        values = state.chunks[chunk]
        while (position := state.position[chunk]) < len(program):
            operation = program[position]
            if isinstance(operation, Send):
                self._send(operation.to, unit, chunk, values)
            elif isinstance(operation, Receive):
                received = self._early.pop((unit, chunk, operation.source), None)
                if received is None:
                    return
                if operation.reduce:
                    values += received
                else:
                    values[:] = received
            else:
                self._aggregate(unit, chunk)
                return
            state.position[chunk] += 1

    def _retire(self, unit: int) -> None:
        position = self._units[unit].position
        if all(at == len(program) for at, program in zip(position, self._program, strict=True)):
            del self._units[unit]
            self._finished(unit)


class _Unit:
    """Progress of one unit: its chunks, shape (chunks, elements), and where each one stands."""

    __slots__ = ("chunks", "position")

    def __init__(self, chunks: Values, position: list[int]) -> None:
        self.chunks = chunks
        self.position = position
