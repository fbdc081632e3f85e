"""The problem of gradient routing, and its solutions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from testbed.systems.gradient_routing.ways import Way, there_and_back
from testbed.systems.racks import by_rack
from testbed.topology.fabric import Fabric
from testbed.topology.paths import EvenPaths

Vector: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class Routing:
    """A solution.

    Attributes:
        ways: the way of each worker.
        rate: bit/s of gradients that every worker can send.
        summed: the part of its workers' gradients that each switch sums; the rest bypasses it.
    """

    ways: tuple[Way, ...]
    rate: float
    summed: Mapping[str, float]


class Problem:
    """Workers that send to ``server``, each on one of the ``ways`` of its rack (keyed by its ToR).

    The first way of a rack bypasses all switches. If ``links_bind``, all links are constraints,
    otherwise only the server's link is.

    A *column* is a way of a rack. Counts are numbers of workers, one for each column. Times are per
    bit of gradient; the unit is the time of a bit on the slowest of the hosts' links. This class
    states the problem and the cost of a solution; `solvers` find solutions.

    Attributes:
        columns: the rack (its ToR) and the way of each; ``own`` lists the columns of each rack.
        sizes: workers in each rack.
        switches: those to which a column leads; ``capacity`` is the rate at which each can add.
        sums: (switches, columns), 1 where the switch sums the column's workers, else 0.
        per_worker: (limits, columns), the time that one worker of a column adds to each limit. Rows
            are links, then switches.
        per_sum: (limits, switches), the same for a switch's sums on their way to the server.
        limits: both side by side, sparse.
        names: each limit's link, or switch.
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
        paths = EvenPaths(fabric)
        loads += [there_and_back(paths, switch, server) for switch in self.switches]
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
        self.names: list[tuple[str, str] | str] = [*row_of, *self.switches]
        self.capacity = np.array(
            [fabric.capacity.get(switch, np.inf) / self.unit for switch in self.switches]
        )
        adding = self.sums / self.capacity[:, None]
        self.per_worker = np.vstack([times[:, : len(self.columns)], adding])
        self.per_sum = np.vstack(
            [times[:, len(self.columns) :], np.zeros((len(adding), len(adding)))]
        )
        # Sparse, because it is mostly zeros, and because the threads of a dense product stall one
        # another on a busy machine.
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
        """Let the worker of a switch that has only one bypass it: the switch would sum nothing."""
        counts = counts.copy()
        lone = (self.sums @ counts == 1) @ self.sums * counts
        for column in np.flatnonzero(lone):
            counts[column] = 0
            counts[self.own[self.columns[column][0]][0]] += 1
        return counts

    def routing(
        self, counts: Vector, time: float | None = None, parts: Mapping[str, float] | None = None
    ) -> Routing:
        """The solution with these ``counts``. Workers of a rack take its ways in the order of their
        ranks."""
        taken = {
            tor: iter([self.columns[c][1] for c in own for _ in range(int(counts[c]))])
            for tor, own in self.own.items()
        }
        ways = tuple(next(taken[tor]) for tor in self.tor_of)
        summed = dict.fromkeys((way.switch for way in ways if way.switch is not None), 1.0)
        if parts is not None:
            summed = {switch: parts[switch] for switch in summed}
        return Routing(ways, self.unit / (time or self.cost(counts)[0]), summed)
