"""Whole jobs in virtual time: real workers and servers, without sockets.

A stream between two ranks keeps its order. Everything else varies: each message and each fragment
takes a different time, and ranks that can continue do so in any order.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from random import Random

import numpy as np

from testbed.hosts.messages import HEADER, Message, Values, decode, encode
from testbed.hosts.rank import make
from testbed.hosts.task import RankOutcome, Task
from testbed.plan.program import Multicast, Plan, SwitchReduce, TreeOperation


class Clock:
    """Events in order of time, each at most ``longest_s`` after its cause."""

    def __init__(self, seed: int, longest_s: float) -> None:
        self.now = 0.0
        self._longest_s = longest_s
        self.random = Random(seed)
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()

    @property
    def next(self) -> float:
        return self._events[0][0] if self._events else math.inf

    def soon(self, event: Callable[[], None], after: float = 0.0) -> float:
        """Let ``event`` happen a moment from now, but not before ``after``; return its time."""
        at = max(after, self.now + self.random.uniform(0, self._longest_s))
        heapq.heappush(self._events, (at, next(self._numbers), event))
        return at

    def advance(self, to: float) -> None:
        self.now = max(self.now, to)
        while self.next <= self.now:
            heapq.heappop(self._events)[2]()


class Tree:
    """A tree of a plan: a fragment is summed once all participants have pushed it."""

    def __init__(self, plan: Plan, number: int, clock: Clock, values: int) -> None:
        tree = plan.trees[number]
        self._root, self._members = tree.root_rank, sorted(tree.rank_of.values())
        # A server that is the root only answers: it pushes nothing.
        self.ranks = {rank for rank in tree.participants if rank < plan.workers}
        self._clock, self._values = clock, values
        self._pushed: dict[int, list[tuple[TreeOperation, Values]]] = defaultdict(list)
        self._done: dict[int, set[int]] = defaultdict(set)
        self._without_gap: dict[int, int] = defaultdict(int)
        self._summed = 0

    def push(self, rank: int, operation: TreeOperation, values: Values) -> int:
        assert len(values), "a push has values"
        fragments = np.split(values, range(self._values, len(values), self._values))
        self._pushed[rank] += [(operation, fragment) for fragment in fragments]
        while all(len(self._pushed[each]) > self._summed for each in self.ranks):
            self._sum(self._summed)
            self._summed += 1
        return len(fragments)

    def _sum(self, number: int) -> None:
        pushed = {rank: self._pushed[rank][number] for rank in self.ranks}
        operations = {operation for operation, _ in pushed.values()}
        assert len(operations) == 1, f"fragment {number} is not the same to all: {operations}"
        (operation,) = operations
        total = np.sum([pushed[rank][1] for rank in self._members], axis=0, dtype=np.int32)
        for rank, (_, values) in pushed.items():
            result = total
            if isinstance(operation, SwitchReduce):
                result = values + total if rank == self._root else values.copy()
            elif isinstance(operation, Multicast):
                result = pushed[self._root][1].copy()
            self._clock.soon(partial(self._end, rank, number, values, result))

    def _end(self, rank: int, number: int, values: Values, result: Values) -> None:
        values[:] = result
        self._done[rank].add(number)

    def done(self, rank: int) -> int:
        while self._without_gap[rank] in self._done[rank]:
            self._without_gap[rank] += 1
        return self._without_gap[rank]


class TreeOfRank:
    """A rank's end of a tree, as `testbed.hosts.transport.Flow` requires."""

    def __init__(self, tree: Tree, rank: int) -> None:
        self._rank, self._tree = rank, tree

    def push(self, operation, values, priority):
        return self._tree.push(self._rank, operation, values)

    def done(self):
        return self._tree.done(self._rank)

    def floats(self):
        return np.zeros(0, np.uint64)


class Stream:
    """A rank's transport; ``others`` has the transports of all ranks."""

    def __init__(self, rank: int, others: dict[int, Stream], trees: Sequence[Tree], clock: Clock):
        self._rank, self._others, self._clock = rank, others, clock
        self.flows = {n: TreeOfRank(t, rank) for n, t in enumerate(trees) if rank in t.ranks}
        self.inbox: deque[tuple[int, Message]] = deque()
        self._last: dict[int, float] = defaultdict(float)

    def send(self, to, message):
        data = encode(message)
        unit, kind, chunk, length = HEADER.unpack_from(data)
        assert length == len(data) - HEADER.size
        copy = decode(unit, kind, chunk, bytearray(data[HEADER.size :]))
        arrive = partial(self._others[to].inbox.append, (self._rank, copy))
        self._last[to] = self._clock.soon(arrive, self._last[to])

    def finished(self):
        return self.flows

    def arrived(self):
        while self.inbox:
            yield self.inbox.popleft()

    def flush(self):
        pass

    def account(self, outcome):
        pass


def run(tasks: Sequence[Task], seed: int = 0, longest_s: float = 0.01) -> list[RankOutcome]:
    """Drive all ranks of a job to their end, and return their outcomes by rank.

    Messages and fragments take up to ``longest_s``. Raises AssertionError if no rank can continue.
    """
    plan, clock = tasks[0].plan, Clock(seed, longest_s)
    trees = [Tree(plan, number, clock, tasks[0].values) for number in range(len(plan.trees))]
    streams: dict[int, Stream] = {}
    for task in tasks:
        streams[task.rank] = Stream(task.rank, streams, trees, clock)
    ranks = {task.rank: make(task, streams[task.rank]) for task in tasks}
    steps = {rank: each.steps(0.0) for rank, each in ranks.items()}
    until = {rank: next(each) for rank, each in steps.items()}
    while any(rank < plan.workers for rank in until):
        at = min(clock.next, *until.values())
        assert at < math.inf, f"ranks {sorted(until)} wait for ever"
        clock.advance(at)
        for rank in clock.random.sample(sorted(until), len(until)):
            try:
                # It may continue before its time, because something may have arrived for it.
                until[rank] = steps[rank].send(clock.now)
            except StopIteration:
                del until[rank]
    return [ranks[task.rank].outcome() for task in tasks]
