"""Gradient routing: where in the network each worker's gradients are summed, and at what rate.

The problem is GRIA of GRID (Fang et al., IEEE/ACM ToN 31(5), 2023, §3.2): every worker picks one
node, a programmable switch or the parameter server itself, and the least rate of all is to be as
high as possible. A switch adds only so much, the server's link takes in only so much.

More than the least rate is of no use to anyone, so all workers may send at one rate, and the
problem is linear in the time that a bit of gradient takes. Which workers of a rack go where does
not matter, only how many. The paper assumes that links suffice; here each may be a constraint,
with flows on shortest paths that share ECMP sets evenly, and with the sums on their way back.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from testbed.systems.racks import by_rack
from testbed.topology.fabric import Fabric
from testbed.topology.paths import EvenPaths

Load: TypeAlias = Mapping[tuple[str, str], float]
"""What part of a stream is on each directed link."""

Vector: TypeAlias = NDArray[np.float64]

DRAWS, KEPT = 32, 8

TRIALS = 1000
"""About how often a switch is given up to see what comes of it, where there are many."""

TIME_LIMIT_S = 60.0
"""What the exact solution may take."""

TOLERANCE = 1e-6
"""Of the solver, in the time of a bit on the slowest host's link."""


@dataclass(frozen=True)
class Way:
    """How gradients leave a rack: to ``switch``, which sums them, or None to the server alone.

    ``load`` is that of the stream, there and back, but for the worker's own link. ``pins`` are the
    neighbours of the worker's and of the server's ToR to which flows between these two hosts go
    first, None for shortest paths.
    """

    switch: str | None
    load: Load = field(compare=False)
    pins: tuple[str, str] | None = None


@dataclass(frozen=True)
class Routing:
    """What was found.

    Attributes:
        ways: each worker's.
        rate: bit/s of gradients that every worker can send.
        summed: what part of its workers' gradients each switch sums; the rest goes past it.
    """

    ways: tuple[Way, ...]
    rate: float
    summed: Mapping[str, float]


def flow(fabric: Fabric, source: str, to: str) -> Load:
    """The part of a flow on each directed link, ECMP sets sharing evenly."""
    return EvenPaths(fabric).shares(source, to)


def there_and_back(fabric: Fabric, a: str, b: str) -> Load:
    """A stream from ``a`` to ``b``, and the sums that come back."""
    return _together(flow(fabric, a, b), flow(fabric, b, a))


def past_switches(fabric: Fabric, tor: str, server: str) -> Way:
    """To the server by shortest paths."""
    return Way(None, there_and_back(fabric, tor, server))


def to_switch(fabric: Fabric, tor: str, switch: str) -> Way:
    """To be summed in ``switch``, by shortest paths."""
    return Way(switch, there_and_back(fabric, tor, switch))


def detours(fabric: Fabric, tor: str, server: str) -> list[Way]:
    """To the server by a switch beside the ToR that is on no shortest path, and back by it."""
    home = fabric.tor_of(server)
    shortest = flow(fabric, tor, server)
    found = []
    for there in fabric.neighbours(tor):
        if there not in fabric.switches or tor == home or (tor, there) in shortest:
            continue
        up = _together({(tor, there): 1.0}, flow(fabric, there, server))
        for back in fabric.neighbours(home):
            if back not in fabric.switches:
                continue
            down = _together({(server, home): 1.0, (home, back): 1.0}, flow(fabric, back, tor))
            # Not so where a shortest path leads back over the ToR, or the sums' way is another.
            if set(down) == {(b, a) for a, b in up} and set(up).isdisjoint(down):
                found.append(Way(None, _together(up, down), (there, back)))
    return found


def _together(*loads: Load) -> Load:
    total: defaultdict[tuple[str, str], float] = defaultdict(float)
    for load in loads:
        for ends, amount in load.items():
            total[ends] += amount
    return dict(total)


class Problem:
    """Workers towards ``server``, each on one of the ``ways`` of its rack, by the rack's ToR.

    A rack's first way goes past all switches. ``links_bind``: whether all links are constraints,
    or only the hosts' own.

    A *column* is a way of a rack. Counts are workers on each column. Times are those of a bit of
    gradient, in that of the slowest of the hosts' links.
    """

    def __init__(
        self,
        fabric: Fabric,
        workers: Sequence[str],
        server: str,
        ways: Mapping[str, Sequence[Way]],
        links_bind: bool = True,
    ) -> None:
        racks = by_rack(workers, fabric)
        self._tor_of = [fabric.tor_of(worker) for worker in workers]
        self._sizes = {tor: len(hosts) for tor, hosts in racks.items()}
        self._columns = [(tor, way) for tor in racks for way in ways[tor]]
        self._own: dict[str, list[int]] = {tor: [] for tor in racks}
        for column, (tor, _) in enumerate(self._columns):
            self._own[tor].append(column)
        self._switches = sorted({way.switch for _, way in self._columns if way.switch is not None})
        self._unit = min(fabric.link(host, fabric.tor_of(host)).rate for host in (*workers, server))
        # Which columns a switch sums.
        self._sums = np.array(
            [[way.switch == switch for _, way in self._columns] for switch in self._switches],
            dtype=float,
        ).reshape(len(self._switches), len(self._columns))
        loads = [way.load for _, way in self._columns]
        loads += [there_and_back(fabric, switch, server) for switch in self._switches]
        links = dict.fromkeys(ends for load in loads for ends in load)
        row_of = {
            ends: row
            for row, ends in enumerate(ends for ends in links if links_bind or server in ends)
        }
        times = np.zeros((len(row_of), len(loads)))
        for column, load in enumerate(loads):
            for ends, amount in load.items():
                if ends in row_of:
                    times[row_of[ends], column] = amount * self._unit / fabric.link(*ends).rate
        # Rows are links and switches with a limit: what one more worker or sum costs them.
        self._capacity = np.array(
            [fabric.capacity.get(switch, np.inf) / self._unit for switch in self._switches]
        )
        adding = self._sums / self._capacity[:, None]
        self._per_worker = np.vstack([times[:, : len(self._columns)], adding])
        self._per_sum = np.vstack(
            [times[:, len(self._columns) :], np.zeros((len(adding), len(adding)))]
        )
        from scipy import sparse  # it takes long, and few runs need it

        # Mostly zeros, and a dense product's threads wait for one another on a busy machine.
        self._limits = sparse.csr_array(np.hstack([self._per_worker, self._per_sum]))

    @property
    def size(self) -> int:
        """Ways of all racks together."""
        return len(self._columns)

    def exact(self) -> Routing:
        """The best way of each worker, by mixed-integer programming.

        Of equally good ones, one with the least on all links together: streams that cross the
        fabric without need meet wherever ECMP's hash sends them. ValueError if it takes too long.
        """
        if len(self._columns) == len(self._own):
            return self._routing(np.array([float(self._sizes[tor]) for tor, _ in self._columns]))
        fastest, _ = self._cost(np.rint(self._solve(whole=True)))
        return self._routing(np.rint(self._solve(whole=True, within=fastest)))

    def rounded(self, seed: int) -> Routing:
        """The relaxation, with one way a worker drawn in proportion to its rates (§4.1).

        This project's own additions: of several draws the best are kept, and as the relaxation
        does not see that every switch in use costs a stream to the server, switches are then
        given up, one at a time, and the best that was on this way is taken.
        """
        relaxed, dice = self._solve(whole=False).clip(0), random.Random(seed)
        draws = []
        for _ in range(DRAWS):
            counts = np.zeros(len(self._columns))
            for tor, own in self._own.items():
                for column in dice.choices(own, relaxed[own].tolist(), k=self._sizes[tor]):
                    counts[column] += 1
            draws.append(self._without_lone(counts))
        draws.sort(key=self._cost)
        several = TRIALS // max(1, len(self._switches))
        best = [
            self._with_fewer(counts, tries)
            for counts in draws[: max(1, min(KEPT, several))]
            for tries in sorted({1, max(1, min(len(self._switches), several // KEPT))})
        ]
        return self._routing(min(best, key=self._cost))

    def greedy(self) -> Routing:
        """Each rack's last way as far as its switch can add what comes, and its first for the rest.

        The workers of a switch are treated alike.
        """
        counts = np.zeros(len(self._columns))
        for tor, own in self._own.items():
            counts[own[-1]] = self._sizes[tor]
        counts = self._without_lone(counts)
        members = self._sums @ counts

        def summed(time: float) -> Vector:
            """The part that each switch can add, if a bit may take so long."""
            part: Vector = np.minimum(1.0, self._capacity * time / np.maximum(members, 1))
            return part

        def needed(time: float) -> float:
            split = counts.copy()
            for tor, own in self._own.items():
                if own[-1] != own[0] and counts[own[-1]]:
                    split[own[-1]] *= summed(time) @ self._sums[:, own[-1]]
                    split[own[0]] = self._sizes[tor] - split[own[-1]]
            sums = summed(time) * (members > 0)
            return float((self._limits @ np.append(split, sums)).max())

        low = high = 1.0
        while needed(high) > high:
            low, high = high, 2 * high
        while high - low > 1e-9 * high:
            middle = (low + high) / 2
            low, high = (middle, high) if needed(middle) > middle else (low, middle)
        parts = dict(zip(self._switches, summed(high).tolist(), strict=True))
        return self._routing(counts, high, parts)

    def _cost(self, counts: Vector) -> tuple[float, float]:
        """The time of the busiest, and of all together to decide between equals."""
        times = self._times(counts)
        return max(1.0, round(float(times.max()), 9)), float(times.sum())

    def _times(self, counts: Vector) -> Vector:
        times: Vector = self._limits @ np.append(counts, self._sums @ counts > 0)
        return times

    def _without_lone(self, counts: Vector) -> Vector:
        """A switch with a single worker would sum nothing: that one goes past it."""
        counts = counts.copy()
        lone = (self._sums @ counts == 1) @ self._sums * counts
        for column in np.flatnonzero(lone):
            counts[column] = 0
            counts[self._own[self._columns[column][0]][0]] += 1
        return counts

    def _with_fewer(self, counts: Vector, tries: int) -> Vector:
        """Each time, the best to give up of those ``tries`` with the fewest workers."""
        best = counts
        while (members := self._sums @ counts).any():
            used = sorted(np.flatnonzero(members).tolist(), key=members.__getitem__)
            counts = min((self._giving_up(each, counts) for each in used[:tries]), key=self._cost)
            best = min(best, counts, key=self._cost)
        return best

    def _giving_up(self, switch: int, counts: Vector) -> Vector:
        """The workers of ``switch`` go one by one to another in use, or past all."""
        others = (self._sums @ counts > 0) & (np.arange(len(self._switches)) != switch)
        is_open = (others @ self._sums > 0) | ~self._sums.any(axis=0)
        left = np.where(self._sums[switch] > 0, 0.0, counts)
        times = self._times(left)
        for column in np.flatnonzero(self._sums[switch] * counts):
            own = [other for other in self._own[self._columns[column][0]] if is_open[other]]
            more = self._per_worker[:, own]
            for _ in range(int(counts[column])):
                # The busiest on its own way: elsewhere it changes nothing.
                busiest = np.where(more > 0, times[:, None] + more, 0.0).max(axis=0)
                choice = int(busiest.argmin())
                left[own[choice]] += 1
                times = times + more[:, choice]
        return self._without_lone(left)

    def _routing(
        self, counts: Vector, time: float | None = None, parts: Mapping[str, float] | None = None
    ) -> Routing:
        """Workers of a rack take its ways in the order of their ranks."""
        taken = {
            tor: iter([self._columns[c][1] for c in own for _ in range(int(counts[c]))])
            for tor, own in self._own.items()
        }
        ways = tuple(next(taken[tor]) for tor in self._tor_of)
        summed = dict.fromkeys((way.switch for way in ways if way.switch is not None), 1.0)
        if parts is not None:
            summed = {switch: parts[switch] for switch in summed}
        return Routing(ways, self._unit / (time or self._cost(counts)[0]), summed)

    def _solve(self, whole: bool, within: float | None = None) -> Vector:
        """Counts that take least time or, ``within`` a time, put least on all limits together.

        Parts of workers unless ``whole``. Variables: the counts, how far each switch is in use,
        and the time.
        """
        from scipy import sparse
        from scipy.optimize import Bounds, LinearConstraint, milp

        count, switches = len(self._columns), len(self._switches)
        sizes = np.array([self._sizes[tor] for tor, _ in self._columns], dtype=float)
        everyone = np.array([[tor == of for of, _ in self._columns] for tor in self._own])
        by_switch = np.flatnonzero(self._sums.any(axis=0))
        rows = [
            (self._per_worker, self._per_sum, -1.0),
            (everyone, np.zeros((len(everyone), switches)), 0.0),
            # A switch with workers is in use, and with a single one it would sum nothing.
            (np.eye(count)[by_switch], -(sizes * self._sums).T[by_switch], 0.0),
            (-self._sums, 2 * np.eye(switches), 0.0),
        ]
        matrix = sparse.vstack(
            [
                sparse.csr_array(np.hstack([workers, sums, np.full((len(workers), 1), time)]))
                for workers, sums, time in rows
            ]
        )
        most = np.zeros(matrix.shape[0])
        least = np.full(matrix.shape[0], -np.inf)
        racks = slice(len(self._per_worker), len(self._per_worker) + len(everyone))
        most[racks] = least[racks] = list(self._sizes.values())
        width = count + switches + 1
        time = np.eye(1, width, width - 1).ravel()
        total = np.append(np.append(self._per_worker.sum(axis=0), self._per_sum.sum(axis=0)), 0.0)
        latest = np.inf if within is None else within + TOLERANCE
        found = milp(
            time if within is None else total,
            constraints=LinearConstraint(matrix, least, most),
            integrality=[int(whole)] * (width - 1) + [0],
            bounds=Bounds(np.append(np.zeros(width - 1), 1.0), [*sizes, *[1.0] * switches, latest]),
            options={"time_limit": TIME_LIMIT_S},
        )
        if not found.success:
            raise ValueError(
                f"the routing of {sum(self._sizes.values())} workers over {count} ways was not "
                f"solved within {TIME_LIMIT_S:g} s; take the solver rounding"
            )
        counts: Vector = found.x[:count]
        return counts
