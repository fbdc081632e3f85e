"""When workers push updates of shared parameters, and when servers add and answer them. A plan's
consistency decides both.

All back ends use this code. A shard is one chunk of one unit at its server.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from testbed.plan.program import Consistency, Plan, Update


class Gate:
    """Decides when each worker's updates are added and answered at one shard.

    The rules are those of `Consistency`, without a pass over all workers for each update.
    ``counts`` is how many updates of each worker have been added.
    """

    def __init__(self, consistency: Consistency, workers: int) -> None:
        self.counts = [0] * workers
        self._staleness, self._turns = consistency.staleness, consistency.turns
        self._added = 0
        self._early: set[int] = set()
        self._least = 0
        self._having = Counter({0: workers})
        self._unanswered: dict[int, list[int]] = defaultdict(list)

    def push(self, worker: int) -> Iterator[tuple[int, Sequence[int]]]:
        """Take an update of ``worker``. Yields each worker whose update is added now, and the
        workers to be answered before another update is added."""
        if not self._turns:
            yield worker, self._add(worker)
            return
        self._early.add(worker)
        while (turn := self._added % len(self.counts)) in self._early:
            self._early.remove(turn)
            self._added += 1
            yield turn, self._add(turn)

    def _add(self, worker: int) -> Sequence[int]:
        count = self.counts[worker] = self.counts[worker] + 1
        if self._staleness is None:
            return (worker,)
        self._having[count] += 1
        self._having[count - 1] -= 1
        self._unanswered[count].append(worker)
        while not self._having[self._least]:
            del self._having[self._least]
            self._least += 1
        ready = [n for n in sorted(self._unanswered) if n - self._least <= self._staleness]
        return [each for count in ready for each in self._unanswered.pop(count)]


class Rotation:
    """Decides whose turn it is to push a whole iteration's gradient to one server.

    ``updates`` is the number of updates that the server gets from one worker in an iteration.
    Worker 0 begins.
    """

    def __init__(self, workers: int, updates: int) -> None:
        self._workers, self._updates = workers, updates
        self._pushed = 0

    def pushed(self) -> int | None:
        """Count one more update. Returns the worker whose turn begins with it; None if no turn
        does."""
        self._pushed += 1
        turns, rest = divmod(self._pushed, self._updates)
        return None if rest else turns % self._workers


class Pieces:
    """The pieces that a worker pushes, and their order, in each iteration of ``units`` units.

    Without turns, a piece is a unit, and goes to all servers. If workers take turns, a piece is one
    server's share of a unit, and one server has answered all its pieces before the next server's
    begin. So each server can serve another worker's turn, and a worker's turn has its whole link.
    """

    def __init__(self, plan: Plan, worker: int, units: int) -> None:
        assert plan.consistency is not None
        updates = [op for op in plan.programs[worker] if isinstance(op, Update)]
        self._units = units
        self._groups = [[each] for each in updates] if plan.consistency.turns else [updates]
        self._group_of = {op.chunk: n for n, group in enumerate(self._groups) for op in group}
        self.servers = {update.server for update in updates}

    def __len__(self) -> int:
        return len(self._groups) * self._units

    def unit(self, piece: int) -> int:
        return piece % self._units

    def may_begin(self, piece: int, answered: int) -> bool:
        """Whether ``piece`` may follow, once ``answered`` pieces of its iteration are answered."""
        return answered >= piece - self.unit(piece)

    def updates(self, piece: int) -> Sequence[Update]:
        return self._groups[piece // self._units]

    def holding(self, unit: int, chunk: int) -> int:
        """The piece that has ``chunk`` of ``unit``."""
        return self._group_of[chunk] * self._units + unit


class Turns:
    """The turns that one worker has had, at each of its ``servers``."""

    def __init__(self, servers: Iterable[int]) -> None:
        self._had = dict.fromkeys(servers, 0)

    def told(self, server: int) -> None:
        """The worker's turn at ``server`` has begun."""
        self._had[server] += 1

    def has(self, server: int, iteration: int) -> bool:
        """Whether ``server`` has given it the turn for ``iteration``, counted from 0."""
        return self._had[server] > iteration
