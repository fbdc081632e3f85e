"""The workers' loop: compute, synchronise each unit once it is ready, repeat."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Protocol

from testbed.backends.flow.agenda import Agenda
from testbed.backends.flow.scenario import Job
from testbed.workload.iteration import IterationTimes
from testbed.workload.replay import Computation, forward, lasting_s


class Synchroniser(Protocol):
    """Carries out a job's plan. Numbers of pieces continue from iteration to iteration.

    A piece is a unit, or one server's share of it if the plan's workers take turns (see `Pieces`).
    """

    def begin(self, rank: int, number: int) -> None:
        """Worker ``rank`` begins piece ``number``; `Training.finished` is called at its end."""


class Training:
    """All workers of one job.

    Workers with equal times are handled together, so that thousands of them cost little.
    """

    def __init__(self, job: Job, agenda: Agenda) -> None:
        self._job, self._agenda = job, agenda
        self.synchroniser: Synchroniser | None = None
        workers = job.plan.workers
        self.iterations: list[list[IterationTimes]] = [[] for _ in range(workers)]
        self._credit = job.plan.pipelining.credit or len(job.units)
        self._ready_s = [unit.ready_s for unit in job.units]
        if job.plan.consistency is not None and job.plan.consistency.turns:
            # A worker that takes turns pushes nothing before its whole gradient is ready.
            self._ready_s = [max(self._ready_s)] * job.plan.chunks * len(job.units)
        self._ready = [0] * workers
        self._begun = [0] * workers
        self._done = [0] * workers
        self._computing = [True] * workers
        self._ended = [False] * workers
        self._left = sum(map(len, job.paces))
        self._releasing = [False] * workers
        self._ending: list[int] = []
        self._arrived: list[dict[int, float]] = [{} for _ in range(workers)]
        self._needed = Counter(unit.needed for unit in job.units)
        self._computations: dict[int, Computation] = {}  # by rank, if they have parts
        self._foreseen = [0] * workers
        starts = defaultdict(list)
        for rank in range(workers):
            starts[job.start_s + rank * job.gap_s].append(rank)
        for time, ranks in starts.items():
            agenda.at(time, self._start, ranks)

    @property
    def is_over(self) -> bool:
        """Whether every worker has done all its iterations."""
        return self._left == 0

    def finished(self, rank: int, number: int) -> None:
        """Piece ``number`` is summed at ``rank``."""
        self._done[rank] += 1
        if self._job.forward:
            bucket = self._job.units[number % len(self._job.units)].bucket
            self._arrived[rank][bucket] = self._agenda.now
        if (needed := self._job.units[number % len(self._job.units)].needed) is not None:
            self._computations[rank].arrived(needed, self._agenda.now)
            self._foresee(rank)
        self._release(rank)
        self._end(rank)

    def _start(self, ranks: Iterable[int]) -> None:
        alike: dict[tuple[float, float], list[int]] = defaultdict(list)
        for rank in ranks:
            own, start = self.iterations[rank], self._agenda.now
            pace = self._job.paces[rank][len(own)]
            if own and self._job.forward:
                start = own[-1].compute_end  # this forward pass began before the last sum
            # All sums of the previous iteration have arrived, so the stalls are known by now.
            _, stalls = forward(self._job.forward, start, self._arrived[rank], pace)
            stalled = lasting_s(stalls)
            end = start + stalled + self._job.compute_s * pace
            own.append(IterationTimes(start, end, end, stalls))
            self._ready[rank] = self._begun[rank] = self._done[rank] = 0
            self._computing[rank], self._ended[rank] = True, False
            if self._job.parts:
                missing = [self._needed[part] for part in range(len(self._job.parts))]
                parts = self._job.parts
                self._computations[rank] = Computation(parts, missing, start, pace)
                self._foreseen[rank] = 0
                self._foresee(rank)
                continue
            alike[start + stalled, pace].append(rank)
        for (origin, pace), group in alike.items():
            self._await(group, origin, pace, 0)
            self._agenda.at(origin + self._job.compute_s * pace, self._computed, group)

    def _foresee(self, rank: int) -> None:
        """Wait for the next unit of ``rank``, or for the end of its computation, as soon as the
        time is known."""
        computation, next_one = self._computations[rank], self._foreseen[rank]
        if next_one < len(self._job.units):
            unit = self._job.units[next_one]
            ready = computation.ready_s(unit.ready_s, unit.after)
            if ready < math.inf:
                self._foreseen[rank] += 1
                self._agenda.at(ready, self._is_next, rank)
        if next_one == len(self._job.units) and computation.end_s < math.inf:
            self._foreseen[rank] += 1
            own = self.iterations[rank][-1]
            own.compute_end, own.stalls = computation.end_s, computation.waits
            self._agenda.at(computation.end_s, self._computed, [rank])

    def _is_next(self, rank: int) -> None:
        self._ready[rank] += 1
        self._release(rank)
        self._foresee(rank)

    def _await(self, ranks: Sequence[int], origin: float, pace: float, piece: int) -> None:
        """Wait until ``piece``, and thus every piece before it, is ready. ``origin`` is the
        iteration's start plus its stalls; deferred units are ready at once."""
        if piece < len(self._ready_s):
            ready = self._agenda.now
            if not self._job.units[piece % len(self._job.units)].deferred:
                ready = max(ready, origin + self._ready_s[piece] * pace)
            self._agenda.at(ready, self._is_ready, ranks, origin, pace, piece)

    def _is_ready(self, ranks: Sequence[int], origin: float, pace: float, piece: int) -> None:
        self._await(ranks, origin, pace, piece + 1)
        for rank in ranks:
            self._ready[rank] += 1
            self._release(rank)

    def _computed(self, ranks: Sequence[int]) -> None:
        for rank in ranks:
            self._computing[rank] = False
            self._end(rank)

    def _release(self, rank: int) -> None:
        """Begin the pieces that are ready, as far as the credit allows."""
        assert self.synchroniser is not None
        if self._releasing[rank]:  # a piece that ends as it begins is handled by the loop below
            return
        self._releasing[rank] = True
        first = (len(self.iterations[rank]) - 1) * len(self._ready_s)
        while (
            self._begun[rank] < self._ready[rank]
            and self._begun[rank] - self._done[rank] < self._credit
        ):
            self._begun[rank] += 1
            self.synchroniser.begin(rank, first + self._begun[rank] - 1)
        self._releasing[rank] = False

    def _end(self, rank: int) -> None:
        pieces = len(self._ready_s)
        if self._ended[rank] or self._done[rank] < pieces or self._computing[rank]:
            return
        self._ended[rank] = True
        self._left -= 1
        own = self.iterations[rank]
        own[-1].end = self._agenda.now
        if len(own) < len(self._job.paces[rank]):
            if not self._ending:
                self._agenda.after(0.0, self._next)
            self._ending.append(rank)

    def _next(self) -> None:
        ranks, self._ending = self._ending, []
        self._start(ranks)
