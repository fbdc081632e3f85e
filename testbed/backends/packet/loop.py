"""Drives the steps of all ranks on the simulation's clock."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from functools import partial

from testbed.backends.measurements import BrokenConnection, Stalled
from testbed.backends.packet.simulation import NEVER, SECOND, Kind, Simulation
from testbed.backends.packet.streams import Streams
from testbed.backends.packet.transport import VirtualTransport
from testbed.hosts.rank import make
from testbed.hosts.task import RankOutcome, Task
from testbed.hosts.transport import Rank, Steps, Taker

LONGEST_SILENCE = 1000 * SECOND
"""Picoseconds of simulated time after which ranks that only wait for one another are given up."""


class _Job:
    """The ranks of one job."""

    def __init__(
        self,
        tasks: Sequence[Task],
        nodes: Sequence[int],
        simulation: Simulation,
        pace: float,
        begins: int,
    ) -> None:
        self.nodes = nodes
        self.streams = Streams(simulation, nodes, tasks[0].layout.message_bytes)
        self.transports = [
            VirtualTransport(task, node, simulation, self.streams, pace, begins)
            for task, node in zip(tasks, nodes, strict=True)
        ]
        self.rank_of = {
            each.engine: rank
            for rank, each in enumerate(self.transports)
            if each.engine is not None
        }
        self.ranks: list[Rank] = [
            make(task, transport) for task, transport in zip(tasks, self.transports, strict=True)
        ]
        self.steps: list[Steps] = [rank.steps(0.0) for rank in self.ranks]
        self.timers = [0] * len(tasks)  # the number of each rank's latest timer, 0 for none
        self.until = [math.inf] * len(tasks)  # when that is
        self.takers = [
            rank.take
            if isinstance(rank, Taker) and rank.takes and not simulation.is_charged(node)
            else None
            for rank, node in zip(self.ranks, nodes, strict=True)
        ]
        self.working = {task.rank for task in tasks if task.is_worker}


class Loop:
    """All jobs of a run. Ranks resume one after another, in the same order in every run.

    ``pace``: seconds of the hosts' engines in a simulated second. ``begins``: the number of each
    tree's first fragment.
    """

    def __init__(self, simulation: Simulation, pace: float, begins: int = 0) -> None:
        self._simulation, self._pace, self._begins = simulation, pace, begins
        self._jobs: list[_Job] = []
        self._timers: list[tuple[int, int, int, int, float]] = []
        self._count = 0
        self._actions: list[tuple[int, int, Callable[[], None]]] = []
        self._gone: set[int] = set()
        self._paused: dict[int, list[tuple[int, int]]] = {}  # by node: who was to resume
        self._of_engine: dict[int, int] = {}
        self._of_stream: dict[int, tuple[int, int]] = {}  # the job, and the rank that receives

    def add(self, tasks: Sequence[Task], nodes: Sequence[int]) -> None:
        """Add a job: its ranks' tasks, and the node of each."""
        job = _Job(tasks, nodes, self._simulation, self._pace, self._begins)
        self._of_engine.update(dict.fromkeys(job.rank_of, len(self._jobs)))
        self._jobs.append(job)

    def at(self, instant: int, action: Callable[[], None]) -> None:
        """Call ``action`` at this time, picoseconds after the start."""
        self._count += 1
        heapq.heappush(self._actions, (instant, self._count, action))

    def end_ranks(self, node: int) -> None:
        """Let the ranks of a host end, as if it had died."""
        self._gone.add(node)

    def pause(self, node: int, is_paused: bool) -> None:
        """Stop the ranks of a host, as if their processes were stopped, or let them continue."""
        self._simulation.pause(node, is_paused)
        if is_paused:
            self._paused.setdefault(node, [])
            return
        now = self._simulation.now / SECOND
        for number, rank in dict.fromkeys(self._paused.pop(node, ())):
            self._resume(number, [rank], now)

    def close(self) -> None:
        """Free the engines; the simulation must be closed."""
        for job in self._jobs:
            for transport in job.transports:
                transport.close()

    def outcomes(self) -> list[list[RankOutcome]]:
        """The outcomes of each job's ranks."""
        return [[rank.outcome() for rank in job.ranks] for job in self._jobs]

    def timeouts(self) -> list[int]:
        """TCP's retransmission timeouts of each job."""
        return [job.streams.timeouts() for job in self._jobs]

    def run(self, longest_silence: int = LONGEST_SILENCE, limit: int = NEVER) -> None:
        """Run until every worker has ended.

        ``longest_silence``: picoseconds after which ranks that only wait for one another are given
        up. ``limit``: when workers must have ended, picoseconds after the start. Raises Stalled if
        ranks wait for ever, and BrokenConnection if TCP gave up.
        """
        for number, job in enumerate(self._jobs):
            for rank, steps in enumerate(job.steps):
                self._wait(number, rank, next(steps), 0.0)
        simulation, timers, actions = self._simulation, self._timers, self._actions
        working = [job.working for job in self._jobs]
        while any(working):
            is_planned = bool(timers or actions)
            until = limit if is_planned else min(limit, simulation.now + longest_silence)
            if timers and timers[0][0] < until:
                until = timers[0][0]
            if actions and actions[0][0] < until:
                until = actions[0][0]
            event = simulation.run(until)
            now = simulation.now / SECOND
            if event is not None:
                self._take(*event, now)
            elif not is_planned:
                raise Stalled(f"these ranks wait for ever: {self._left()}")
            if simulation.now >= limit:
                raise Stalled(
                    f"these ranks have not ended after {limit / SECOND:g} s: {self._left()}"
                )
            if actions:
                self._act()
            while timers and timers[0][0] <= simulation.now:
                at, count, number, rank, due = heapq.heappop(timers)
                job = self._jobs[number]
                if job.timers[rank] == count:
                    self._resume(number, [rank], max(now, due))
                elif job.timers[rank] and job.until[rank] == due:  # it has taken messages since
                    heapq.heappush(timers, (at, job.timers[rank], number, rank, due))

    def _act(self) -> None:
        while self._actions and self._actions[0][0] <= self._simulation.now:
            heapq.heappop(self._actions)[2]()

    def drain(self, until: int) -> None:
        """After a run, let packets arrive and timers expire until ``until``, without resuming any
        rank."""
        while self._simulation.now < until:
            at = min(until, self._actions[0][0] if self._actions else until)
            self._simulation.run(at)
            self._act()

    def _take(self, kind: Kind, number: int, messages: int, now: float) -> None:
        if kind is Kind.ENGINE:
            job = self._of_engine[number]
            rank = self._jobs[job].rank_of[number]
            completed = self._jobs[job].transports[rank].completed()
            self._handle(job, rank, completed)
            return
        if number not in self._of_stream:
            self._of_stream[number] = next(
                (job, each.streams.ends(number)[1])
                for job, each in enumerate(self._jobs)
                if each.streams.owns(number)
            )
        job, rank = self._of_stream[number]
        streams = self._jobs[job].streams
        if kind is Kind.BROKEN:
            source, _ = streams.ends(number)
            raise BrokenConnection(
                f"job {job}: TCP gave up the connection from rank {source} to rank {rank} at"
                f" {now:.6g} s, after many timeouts in a row"
            )
        for _ in range(messages):
            if not self._hand(job, rank, number, now):
                self._handle(job, rank, partial(streams.deliver, number))

    def _hand(self, number: int, rank: int, stream: int, now: float) -> bool:
        """Let a rank that waits take a message without being resumed, if it can."""
        job = self._jobs[number]
        take, node, until = job.takers[rank], job.nodes[rank], job.until[rank]
        if take is None or until <= now or node in self._gone or node in self._paused:
            return False
        if take(*job.streams.take(stream), now):
            self._resume(number, [rank], now)
            return True
        if job.timers[rank]:
            # As if it had been resumed: of the ranks that are due at one time, it comes last.
            self._count += 1
            job.timers[rank] = self._count
        if job.streams.woken:
            self._resume(number, job.streams.to_wake(), now)
        return True

    def _handle(self, job: int, rank: int, message: Callable[[], None]) -> None:
        """Resume a rank with a message when its host has handled the message."""
        at = self._simulation.handle_message(self._jobs[job].nodes[rank])

        def resume() -> None:
            message()
            self._resume(job, [rank], at / SECOND)

        if at > self._simulation.now:
            self.at(at, resume)
        else:
            resume()

    def _resume(self, number: int, waiting: list[int], now: float) -> None:
        """Resume ranks, the last one first, and also the ranks on the same host to which they have
        sent."""
        job = self._jobs[number]
        while waiting:
            each = waiting.pop()
            if job.nodes[each] in self._gone:
                continue
            if job.nodes[each] in self._paused:
                self._paused[job.nodes[each]].append((number, each))
                continue
            step = job.steps[each].send
            try:
                until = step(now)
                while until <= now:
                    until = step(now)
            except StopIteration:
                job.working.discard(each)
                until = math.inf
            self._wait(number, each, until, now)
            waiting += job.streams.to_wake()

    def _wait(self, number: int, rank: int, until: float, now: float) -> None:
        job = self._jobs[number]
        job.timers[rank], job.until[rank] = 0, until
        if until < math.inf:
            self._count += 1
            job.timers[rank] = self._count
            at = max(self._simulation.now, math.ceil(max(until, now) * SECOND))
            heapq.heappush(self._timers, (at, self._count, number, rank, until))

    def _left(self) -> str:
        return ", ".join(
            f"job {number} rank {rank}"
            for number, job in enumerate(self._jobs)
            for rank in sorted(job.working)
        )
