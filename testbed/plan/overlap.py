"""The time of a single unit if a plan's stages overlap: every chunk is followed on its own.

A chunk is forwarded as soon as it has arrived. Chunks pass a link in the order of their arrival.
"""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from itertools import count
from typing import TypeAlias

from testbed.plan.chain import Transfer
from testbed.plan.program import Operation, Plan, Receive, Send, TreeOperation, Update

Seconds: TypeAlias = Sequence[tuple[tuple[str, str], float]]
"""Links, and the seconds that a byte of a transfer takes on each."""

Place: TypeAlias = tuple[int, int]
"""Rank and chunk."""


def alone_s(
    plan: Plan,
    size: float,
    step_s: float,
    seconds: Callable[[Transfer | TreeOperation], Seconds],
) -> float:
    """When the last chunk of a unit of ``size`` bytes is summed everywhere.

    A rank pays ``step_s`` before it forwards what it has received. ValueError if the plan has
    updates, which have no stages.
    """
    return _Chunks(plan, size, step_s, seconds).end


class _Chunks:
    def __init__(
        self,
        plan: Plan,
        size: float,
        step_s: float,
        seconds: Callable[[Transfer | TreeOperation], Seconds],
    ) -> None:
        self._plan, self._step_s = plan, step_s
        self._bytes = [float(plan.share(chunk)) * size for chunk in range(plan.chunks)]
        # The path does not depend on the chunk's number.
        self._unicast = cache(lambda source, to: seconds(Transfer(0, source, to)))
        self._together = cache(seconds)
        self._free: defaultdict[tuple[str, str], float] = defaultdict(float)
        self._arrived: defaultdict[Transfer, deque[float]] = defaultdict(deque)
        self._waiting: defaultdict[TreeOperation, set[int]] = defaultdict(set)
        self._paid: set[Place] = set()
        self._todo: dict[Place, deque[Operation]] = {}
        for rank, program in enumerate(plan.programs):
            for operation in program:
                self._todo.setdefault((rank, operation.chunk), deque()).append(operation)
        self._number = count()
        self._due: list[tuple[float, int, Place]] = []
        self.end = 0.0
        for place in self._todo:
            self._at(0.0, place)
        while self._due:
            now, _, place = heapq.heappop(self._due)
            self.end = max(self.end, now)
            while (queue := self._todo.get(place)) and self._do(now, place, queue[0]):
                queue.popleft()

    def _at(self, time: float, place: Place) -> None:
        heapq.heappush(self._due, (time, next(self._number), place))

    def _do(self, now: float, place: Place, operation: Operation) -> bool:
        """Whether ``operation`` is over, so that the next one on this chunk can start."""
        rank, chunk = place
        if isinstance(operation, Receive):
            arrived = self._arrived[Transfer(chunk, operation.source, rank)]
            if not arrived or arrived[0] > now:
                return False
            arrived.popleft()
            self._paid.discard(place)
            return True
        if self._step_s and place not in self._paid:
            self._paid.add(place)
            self._at(now + self._step_s, place)
            return False
        if isinstance(operation, Send):
            end = self._sent(now, chunk, self._unicast(rank, operation.to))
            self._arrived[Transfer(chunk, rank, operation.to)].append(end)
            self._at(end, (operation.to, chunk))
            return True
        if isinstance(operation, Update):
            raise ValueError(f"{self._plan.system}: found {operation}, wanted no updates")
        everyone = self._plan.trees[operation.tree].participants
        self._waiting[operation].add(rank)
        if len(self._waiting[operation]) == len(everyone):
            end = self._sent(now, chunk, self._together(replace(operation, chunk=0)))
            for each in everyone:
                self._todo[each, chunk].popleft()
                self._paid.discard((each, chunk))
                self._at(end, (each, chunk))
        return False

    def _sent(self, now: float, chunk: int, links: Seconds) -> float:
        """The time at which a chunk that reaches its links at ``now`` has passed all of them."""
        end = now
        for link, seconds in links:
            self._free[link] = max(self._free[link], now) + seconds * self._bytes[chunk]
            end = max(end, self._free[link])
        return end
