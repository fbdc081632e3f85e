"""Plans in closed stretches: identical rounds are one transfer, not thousands.

In a ring every position sends, waits for the chunk of the position before, and forwards it. A round
therefore lasts as long as the slowest position needs to send, or as long as sending, latency and
the cost of a step take at the mean position, whichever is longer.

Between stages, all ranks wait for one another. If all positions are alike, programs do the same.
Otherwise this is an approximation, for plans that are too large to be simulated operation by
operation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain, islice
from statistics import fmean

import numpy as np

from testbed.backends.flow.channels import Channels
from testbed.backends.flow.cycles import Cycle, Leg
from testbed.backends.flow.fairness import max_min
from testbed.backends.flow.routes import Demand, Links, Ways
from testbed.backends.flow.scenario import Job
from testbed.plan.stages import Hop, Rounds, stretches
from testbed.plan.units import in_packets

Stretch = Sequence[Rounds]


class Stretches:
    """Runs the stretches of a plan; each unit starts once all workers have begun it.

    Without trees, a unit waits only for its own chunks, and all stretches are one cycle. With
    trees, each stretch is a cycle, which units pass in order.
    """

    def __init__(
        self,
        job: Job,
        links: Links,
        ways: Ways,
        channels: Channels,
        finished: Callable[[int, int], None],
    ) -> None:
        self._job, self._links, self._ways = job, links, ways
        self._channels, self._finished = channels, finished
        self._hops: dict[Hop, Demand] = {}
        packet = ways.framing.values if job.plan.trees else 1
        self._sizes = [in_packets(unit.elements, packet) for unit in job.units]
        self._cycles: list[list[Cycle]] = []
        for collective, _ in job.plan.collectives:
            found = stretches(collective)
            parts = [[each] for each in found] if job.plan.trees else [found]
            self._cycles.append([self._cycle(part) for part in parts])
        self._arrived: dict[int, int] = {}

    def begin(self, rank: int, number: int) -> None:
        arrived = self._arrived[number] = self._arrived.get(number, 0) + 1
        if arrived == self._job.plan.workers:
            del self._arrived[number]
            self._go_on(number, 0)

    def _go_on(self, number: int, cycle: int) -> None:
        cycles = self._cycles[self._job.units[number % len(self._sizes)].gathers]
        if cycle == len(cycles):
            for rank in range(self._job.plan.workers):
                self._finished(rank, number)
            return
        size = 4.0 * self._sizes[number % len(self._sizes)]
        self._channels.turn(cycles[cycle], size, self._go_on, number, cycle + 1)

    def _cycle(self, stages: Sequence[Stretch]) -> Cycle:
        together = _sum(chain.from_iterable(map(self._sent, chain.from_iterable(stages))))
        (slowest,) = self._seconds([together])
        legs = [self._leg(stretch, slowest) for stretch in stages]
        return self._channels.cycle(together, legs, queued=bool(self._job.plan.trees))

    def _leg(self, stretch: Stretch, whole: float) -> Leg:
        """One stretch of a cycle that takes ``whole`` seconds per byte at its slowest positions."""
        sent = [self._sent(ring) for ring in stretch]
        positions = iter(self._seconds(list(chain.from_iterable(sent))))
        mean = max(fmean(islice(positions, len(ring))) for ring in sent)
        (slowest,) = self._seconds([_sum(chain.from_iterable(sent))])
        pause, wait = max((ring.rounds * self._wait(ring), self._wait(ring)) for ring in stretch)
        return Leg(slowest / whole, min(1.0, mean / slowest), pause, wait)

    def _sent(self, ring: Rounds) -> list[Demand]:
        """The cost of a byte of a unit at each position."""
        times = ring.rounds * float(ring.share)
        return [
            Demand(
                {link: amount * times for link, amount in hop.load.items()},
                {link: amount * times for link, amount in hop.receipts.items()},
                hop.latency_s,
                hop.most / times,
            )
            for hop in map(self._hop, ring.hops)
        ]

    def _wait(self, ring: Rounds) -> float:
        """The time that a round waits, at the mean position."""
        return fmean(self._job.step_s + self._hop(hop).latency_s for hop in ring.hops)

    def _hop(self, hop: Hop) -> Demand:
        if hop not in self._hops:
            self._hops[hop] = (
                self._ways.stream(*hop) if isinstance(hop, tuple) else self._ways.on_tree(hop)
            )
        return self._hops[hop]

    def _seconds(self, demands: Sequence[Demand]) -> list[float]:
        """Seconds per byte of each transfer if only these transfers are on the fabric."""
        entries = [
            (position, link, amount)
            for position, demand in enumerate(demands)
            for link, amount in demand.load.items()
        ]
        position, link, amount = (np.array(column) for column in zip(*entries, strict=True))
        most = np.array([demand.most for demand in demands])
        rates: list[float] = max_min(self._links.capacity, position, link, amount, most).tolist()
        return [1 / rate for rate in rates]


def _sum(demands: Iterable[Demand]) -> Demand:
    """All demands as one, limited by the lowest window rate."""
    total = Demand()
    for each in demands:
        total.most = min(total.most, each.most)
        for link, amount in each.load.items():
            total.load[link] += amount
        for link, amount in each.receipts.items():
            total.receipts[link] += amount
    return total
