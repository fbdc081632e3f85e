"""Drives the steps of all ranks on the simulation's clock."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence

from testbed.backends.measurements import Stalled
from testbed.backends.packet.simulation import NEVER, SECOND, Kind, Simulation
from testbed.backends.packet.streams import Streams
from testbed.backends.packet.transport import VirtualTransport
from testbed.hosts.rank import make
from testbed.hosts.task import RankOutcome, Task
from testbed.hosts.transport import Rank, Steps


class _Job:
    """The ranks of one job."""

    def __init__(self, told: Sequence[Task], nodes: Sequence[int], simulation: Simulation) -> None:
        self.streams = Streams(simulation, nodes)
        transports = [
            VirtualTransport(task, node, simulation, self.streams)
            for task, node in zip(told, nodes, strict=True)
        ]
        self.rank_of = {each.engine: rank for rank, each in enumerate(transports)}
        self.ranks: list[Rank] = [
            make(task, transport) for task, transport in zip(told, transports, strict=True)
        ]
        self.steps: list[Steps] = [rank.steps(0.0) for rank in self.ranks]
        self.working = {task.rank for task in told if task.is_worker}


class Loop:
    """All jobs of a run. Ranks go on one after another, in an order that is always the same."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._jobs: list[_Job] = []
        self._timers: list[tuple[int, int, _Job, int, float]] = []
        self._current: dict[tuple[int, int], int] = {}
        self._count = 0

    def add(self, told: Sequence[Task], nodes: Sequence[int]) -> None:
        """The ranks of one job, and the node of each."""
        self._jobs.append(_Job(told, nodes, self._simulation))

    def outcomes(self) -> list[list[RankOutcome]]:
        """Of each job, its ranks'."""
        return [[rank.outcome() for rank in job.ranks] for job in self._jobs]

    def run(self) -> None:
        """Until every worker has ended. Stalled if that never comes."""
        for job in self._jobs:
            for rank, steps in enumerate(job.steps):
                self._wait(job, rank, next(steps), 0.0)
        while any(job.working for job in self._jobs):
            until = self._timers[0][0] if self._timers else NEVER
            happened = self._simulation.run(until)
            now = self._simulation.now / SECOND
            if happened is not None:
                self._take(*happened, now)
            elif until == NEVER:
                raise Stalled(f"nothing is left to happen, and these wait: {self._left()}")
            while self._timers and self._timers[0][0] <= self._simulation.now:
                _, number, job, rank, due = heapq.heappop(self._timers)
                if self._current.get((id(job), rank)) == number:
                    self._go_on(job, rank, max(now, due))

    def _take(self, kind: Kind, number: int, now: float) -> None:
        if kind is Kind.STREAM:
            job = next(each for each in self._jobs if each.streams.owns(number))
            self._go_on(job, job.streams.arrived(number), now)
        else:
            job = next(each for each in self._jobs if number in each.rank_of)
            self._go_on(job, job.rank_of[number], now)

    def _go_on(self, job: _Job, rank: int, now: float) -> None:
        """This rank, and those on its own host that it has sent something to."""
        waiting = [rank]
        while waiting:
            each = waiting.pop()
            try:
                until = job.steps[each].send(now)
                while until <= now:
                    until = job.steps[each].send(now)
            except StopIteration:
                job.working.discard(each)
                until = math.inf
            self._wait(job, each, until, now)
            while job.streams.woken:
                waiting.append(job.streams.woken.popleft())

    def _wait(self, job: _Job, rank: int, until: float, now: float) -> None:
        self._count += 1
        self._current[id(job), rank] = self._count
        if until < math.inf:
            at = max(self._simulation.now, math.ceil(max(until, now) * SECOND))
            heapq.heappush(self._timers, (at, self._count, job, rank, until))

    def _left(self) -> str:
        return ", ".join(
            f"job {number} rank {rank}"
            for number, job in enumerate(self._jobs)
            for rank in sorted(job.working)
        )
