"""The chain of a plan: the dependencies between its transfers.

A transfer happens in the first step after everything that it waits for. The closed forms multiply
the per-step latency by the number of steps.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TypeAlias

from testbed.plan.program import Operation, Plan, Receive, Send, TreeOperation, Update
from testbed.plan.stages import Stages


@dataclass(frozen=True, slots=True)
class Transfer:
    """A chunk on its way from rank ``source`` to rank ``to``."""

    chunk: int
    source: int
    to: int


Step: TypeAlias = list[Transfer | TreeOperation]

WRITTEN_OUT = 64
"""Up to this many workers, the chain of any plan is followed operation by operation."""


def length(plan: Plan) -> int:
    """The number of transfers on the longest chain of dependent ones, added up over a bucket's
    collectives.

    Large plans of stages are not written out for this. Instead the lengths of their stages are
    added, which is exact if all ranks have equally many rounds.
    """
    if plan.sharding is not None:
        return sum(times * length(each) for each, times in plan.collectives)
    programs = plan.programs
    if isinstance(programs, Stages) and plan.workers > WRITTEN_OUT:
        return sum(max(ring.rounds for ring in stage) for stage in programs.stages)
    return len(steps(plan))


def steps(plan: Plan) -> list[Step]:
    """The transfers of each step. Those that wait for ever (see ``checker``) do not appear.

    A tree operation starts when all ranks on the tree have reached it, and takes one step for up
    and down together. An update takes two, the push and the pull.
    """
    return _Chain(plan).steps


class _Chain:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.steps: list[Step] = []
        self.todo: dict[tuple[int, int], deque[Operation]] = {}
        for rank, program in enumerate(plan.programs):
            for operation in program:
                self.todo.setdefault((rank, operation.chunk), deque()).append(operation)
        self.settled = dict.fromkeys(self.todo, 0)  # the step of each chunk's last change
        self.wire: dict[Transfer, deque[int]] = {}
        self.ready = list(self.todo)
        while self.ready:
            place = self.ready.pop()
            while (queue := self.todo[place]) and self._do(*place, queue[0]):
                queue.popleft()

    def _happens(self, step: int, what: Transfer | TreeOperation) -> None:
        while len(self.steps) < step:
            self.steps.append([])
        self.steps[step - 1].append(what)

    def _do(self, rank: int, chunk: int, operation: Operation) -> bool:
        """Whether ``operation`` is over, so that the next one on this chunk can start."""
        before = self.settled[rank, chunk]
        if isinstance(operation, Send):
            transfer = Transfer(chunk, rank, operation.to)
            self._happens(before + 1, transfer)
            self.wire.setdefault(transfer, deque()).append(before + 1)
            if (operation.to, chunk) in self.todo:
                self.ready.append((operation.to, chunk))
        elif isinstance(operation, Receive):
            arrived = self.wire.get(Transfer(chunk, operation.source, rank))
            if not arrived:
                return False
            self.settled[rank, chunk] = max(before, arrived.popleft())
        elif isinstance(operation, Update):
            self._happens(before + 1, Transfer(chunk, rank, operation.server))
            self._happens(before + 2, Transfer(chunk, operation.server, rank))
            self.settled[rank, chunk] = before + 2
        else:
            self._together(operation)
            return False  # if it happened, `_together` has removed it from all queues
        return True

    def _together(self, operation: TreeOperation) -> None:
        everyone = [
            (rank, operation.chunk) for rank in self.plan.trees[operation.tree].participants
        ]
        queues = [self.todo.get(place) for place in everyone]
        if not all(queue and queue[0] == operation for queue in queues):
            return
        step = 1 + max(self.settled[place] for place in everyone)
        self._happens(step, operation)
        for place in everyone:
            self.settled[place] = step
            self.todo[place].popleft()
        self.ready += everyone
