"""Gradient routing: where in the network each worker's gradients are summed, and at what rate.

The problem is GRIA of GRID (Fang et al., IEEE/ACM ToN 31(5), 2023, §3.2): every worker picks one
node, a programmable switch or the parameter server itself, such that the lowest rate of all workers
is as high as possible. Switches add, and the server's link receives, at a limited rate.

A worker gains nothing from sending faster than the slowest one, so all may send at one rate, and
the problem is linear in the time that a bit of gradient takes. Only the number of a rack's workers
on each way matters, not which ones. The paper assumes that links suffice; here each link may be a
constraint. Flows take shortest paths and share ECMP sets evenly; returning sums count as well.
"""

from __future__ import annotations

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
"""The part of a stream on each directed link."""

Vector: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class Way:
    """How gradients leave a rack: to ``switch``, which sums them, or straight to the server (None).

    ``load`` is the load of the stream in both directions, without the worker's own link. ``pins``
    are the neighbours of the worker's and of the server's ToR to which flows between these two
    hosts go first, None for shortest paths.
    """

    switch: str | None
    load: Load = field(compare=False)
    pins: tuple[str, str] | None = None


@dataclass(frozen=True)
class Routing:
    """A solution.

    Attributes:
        ways: the way of each worker.
        rate: bit/s of gradients that every worker can send.
        summed: the part of its workers' gradients that each switch sums; the rest goes past it.
    """

    ways: tuple[Way, ...]
    rate: float
    summed: Mapping[str, float]


def flow(fabric: Fabric, source: str, to: str) -> Load:
    """The part of a flow on each directed link, ECMP sets sharing evenly."""
    return EvenPaths(fabric).shares(source, to)


def there_and_back(fabric: Fabric, a: str, b: str) -> Load:
    """A stream from ``a`` to ``b``, and the sums that return."""
    return _together(flow(fabric, a, b), flow(fabric, b, a))


def past_switches(fabric: Fabric, tor: str, server: str) -> Way:
    """To the server by shortest paths."""
    return Way(None, there_and_back(fabric, tor, server))


def to_switch(fabric: Fabric, tor: str, switch: str) -> Way:
    """To be summed in ``switch``, by shortest paths."""
    return Way(switch, there_and_back(fabric, tor, switch))


def detours(fabric: Fabric, tor: str, server: str) -> list[Way]:
    """To the server and back through a neighbour of the ToR that is on no shortest path."""
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
            # Skipped if a shortest path leads back over the ToR, or the sums take other links.
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
    """Workers that send to ``server``, each on one of the ``ways`` of its rack (keyed by its ToR).

    The first way of a rack goes past all switches. If ``links_bind``, all links are constraints,
    otherwise only the server's.

    A *column* is a way of a rack. Counts are numbers of workers, one for each column. Times are per
    bit of gradient; the unit is the time of a bit on the slowest of the hosts' links. This class
    states the problem and the cost of a solution; `gradient_solvers` find solutions.

    Attributes:
        columns: the rack (its ToR) and the way of each; ``own`` lists the columns of each rack.
        sizes: workers in each rack.
        switches: those that some column leads to; ``capacity`` is the rate at which each can add.
        sums: (switches, columns), 1 where the switch sums the column's workers, else 0.
        per_worker: (limits, columns), the time that one worker of a column adds to each limit. Rows
            are links, then switches.
        per_sum: (limits, switches), the same for a switch's sums on their way to the server.
        limits: both side by side, sparse.
        unit: the rate of the slowest host link, bit/s.
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
        self.tor_of = [fabric.tor_of(worker) for worker in workers]
        self.sizes = {tor: len(hosts) for tor, hosts in racks.items()}
        self.columns = [(tor, way) for tor in racks for way in ways[tor]]
        self.own: dict[str, list[int]] = {tor: [] for tor in racks}
        for column, (tor, _) in enumerate(self.columns):
            self.own[tor].append(column)
        self.switches = sorted({way.switch for _, way in self.columns if way.switch is not None})
        self.unit = min(fabric.link(host, fabric.tor_of(host)).rate for host in (*workers, server))
        # Which columns a switch sums.
        self.sums = np.array(
            [[way.switch == switch for _, way in self.columns] for switch in self.switches],
            dtype=float,
        ).reshape(len(self.switches), len(self.columns))
        loads = [way.load for _, way in self.columns]
        loads += [there_and_back(fabric, switch, server) for switch in self.switches]
        links = dict.fromkeys(ends for load in loads for ends in load)
        row_of = {
            ends: row
            for row, ends in enumerate(ends for ends in links if links_bind or server in ends)
        }
        times = np.zeros((len(row_of), len(loads)))
        for column, load in enumerate(loads):
            for ends, amount in load.items():
                if ends in row_of:
                    times[row_of[ends], column] = amount * self.unit / fabric.link(*ends).rate
        # Rows are links, then switches; values are the cost of one more worker or sum.
        self.capacity = np.array(
            [fabric.capacity.get(switch, np.inf) / self.unit for switch in self.switches]
        )
        adding = self.sums / self.capacity[:, None]
        self.per_worker = np.vstack([times[:, : len(self.columns)], adding])
        self.per_sum = np.vstack(
            [times[:, len(self.columns) :], np.zeros((len(adding), len(adding)))]
        )
        from scipy import sparse  # slow to import, and few runs need it

        # Mostly zeros; and the threads of a dense product stall one another on a busy machine.
        self.limits = sparse.csr_array(np.hstack([self.per_worker, self.per_sum]))

    @property
    def size(self) -> int:
        """The number of ways of all racks together."""
        return len(self.columns)

    def cost(self, counts: Vector) -> tuple[float, float]:
        """The time of the busiest limit; then, to break ties, the total time of all limits."""
        times = self.times(counts)
        return max(1.0, round(float(times.max()), 9)), float(times.sum())

    def times(self, counts: Vector) -> Vector:
        times: Vector = self.limits @ np.append(counts, self.sums @ counts > 0)
        return times

    def without_lone(self, counts: Vector) -> Vector:
        """Send the worker of a single-worker switch past it: the switch would sum nothing."""
        counts = counts.copy()
        lone = (self.sums @ counts == 1) @ self.sums * counts
        for column in np.flatnonzero(lone):
            counts[column] = 0
            counts[self.own[self.columns[column][0]][0]] += 1
        return counts

    def routing(
        self, counts: Vector, time: float | None = None, parts: Mapping[str, float] | None = None
    ) -> Routing:
        """Workers of a rack take its ways in the order of their ranks."""
        taken = {
            tor: iter([self.columns[c][1] for c in own for _ in range(int(counts[c]))])
            for tor, own in self.own.items()
        }
        ways = tuple(next(taken[tor]) for tor in self.tor_of)
        summed = dict.fromkeys((way.switch for way in ways if way.switch is not None), 1.0)
        if parts is not None:
            summed = {switch: parts[switch] for switch in summed}
        return Routing(ways, self.unit / (time or self.cost(counts)[0]), summed)
