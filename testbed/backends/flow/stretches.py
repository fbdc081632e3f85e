"""Plans in closed stretches: rounds that are all alike are one transfer, not thousands.

In a ring every position sends, waits for what the one before sent, and sends that on. Its round
therefore lasts as long as the slowest position needs to send, or as long as sending, latency and
the cost of a step take together on the way round, divided by the positions: whichever is more.

Between stages everyone waits for everyone. Programs do so where all positions are alike; elsewhere
this is an approximation, for plans that are too large to be followed operation by operation.
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

Stretch = Sequence[Rounds]


class Stretches:
    """Runs the stretches of a plan, begun by all workers together.

    Where chunks go from rank to rank, nothing but its own chunks holds a unit back, and all
    stretches are one cycle. Where trees sum, each stretch is a cycle, which units pass in order.
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
        found = stretches(job.plan)
        parts = [[each] for each in found] if job.plan.trees else [found]
        self._cycles = [self._cycle(part) for part in parts]
        self._arrived: dict[int, int] = {}

    def begin(self, rank: int, number: int) -> None:
        arrived = self._arrived[number] = self._arrived.get(number, 0) + 1
        if arrived == self._job.plan.workers:
            del self._arrived[number]
            self._go_on(number, 0)

    def _go_on(self, number: int, cycle: int) -> None:
        if cycle == len(self._cycles):
            for rank in range(self._job.plan.workers):
                self._finished(rank, number)
            return
        size = 4.0 * self._job.units[number % len(self._job.units)].elements
        self._channels.turn(self._cycles[cycle], size, self._go_on, number, cycle + 1)

    def _cycle(self, stages: Sequence[Stretch]) -> Cycle:
        together = _sum(chain.from_iterable(map(self._sent, chain.from_iterable(stages))))
        (slowest,) = self._seconds([together])
        legs = [self._leg(stretch, slowest) for stretch in stages]
        return self._channels.cycle(together, legs, queued=bool(self._job.plan.trees))

    def _leg(self, stretch: Stretch, whole: float) -> Leg:
        """A stretch of what takes ``whole`` seconds a byte at its slowest position."""
        sent = [self._sent(ring) for ring in stretch]
        positions = iter(self._seconds(list(chain.from_iterable(sent))))
        mean = max(fmean(islice(positions, len(ring))) for ring in sent)
        (slowest,) = self._seconds([_sum(chain.from_iterable(sent))])
        pause, wait = max((ring.rounds * self._wait(ring), self._wait(ring)) for ring in stretch)
        return Leg(slowest / whole, min(1.0, mean / slowest), pause, wait)

    def _sent(self, ring: Rounds) -> list[Demand]:
        """What a byte of a unit costs at each position."""
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
        """What a round waits, at the mean position."""
        return fmean(self._job.step_s + self._hop(hop).latency_s for hop in ring.hops)

    def _hop(self, hop: Hop) -> Demand:
        if hop not in self._hops:
            self._hops[hop] = (
                self._ways.stream(*hop) if isinstance(hop, tuple) else self._ways.on_tree(hop)
            )
        return self._hops[hop]

    def _seconds(self, demands: Sequence[Demand]) -> list[float]:
        """What a byte of each transfer takes, if there were nothing else."""
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
    """All together, as one that slows down for the slowest."""
    total = Demand()
    for each in demands:
        total.most = min(total.most, each.most)
        for link, amount in each.load.items():
            total.load[link] += amount
        for link, amount in each.receipts.items():
            total.receipts[link] += amount
    return total
