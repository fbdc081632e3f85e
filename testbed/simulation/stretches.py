"""Regular plans in closed stretches: rounds that are all alike are one transfer, not thousands.

In a ring every position sends, waits for what the one before sent, and sends that on. Its round
therefore lasts as long as the slowest position needs to send, or as long as sending, latency and
the cost of a step take together on the way round, divided by the positions: whichever is more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain

import numpy as np

from testbed.plan.program import Ring, TreeOperation
from testbed.simulation.channels import Channels, Cycle
from testbed.simulation.fairness import Floats, max_min
from testbed.simulation.routes import Demand, Routes
from testbed.simulation.scenario import Job


class Stretches:
    """Runs the stretches of a plan one after another, each begun by all workers together."""

    def __init__(
        self,
        job: Job,
        name: str,
        routes: Routes,
        channels: Channels,
        finished: Callable[[int], None],
    ) -> None:
        self._job, self._routes, self._name = job, routes, name
        self._channels, self._finished = channels, finished
        self._cycles = [self._cycle(stretch) for stretch in job.plan.stretches]
        self._arrived: dict[int, int] = {}

    def begin(self, rank: int, number: int) -> None:
        arrived = self._arrived[number] = self._arrived.get(number, 0) + 1
        if arrived == self._job.plan.workers:
            del self._arrived[number]
            self._go_on(number, 0)

    def _go_on(self, number: int, stretch: int) -> None:
        if stretch == len(self._cycles):
            for rank in range(self._job.plan.workers):
                self._finished(rank)
            return
        size = 4.0 * self._job.units[number % len(self._job.units)].elements
        self._channels.turn(self._cycles[stretch], size, self._go_on, number, stretch + 1)

    def _cycle(self, stretch: Sequence[Ring]) -> Cycle:
        """What a byte of a unit costs in ``stretch``: every position slows down for the slowest."""
        rings = [[self._hop(hop) for hop in ring.hops] for ring in stretch]
        together = Demand()
        for ring, hops in zip(stretch, rings, strict=True):
            times = ring.rounds * float(ring.share)
            for hop in hops:
                together.most = min(together.most, hop.most / times)
                for of_hop, total in (
                    (hop.load, together.load),
                    (hop.receipts, together.receipts),
                ):
                    for link, amount in of_hop.items():
                        total[link] += times * amount
        pause = max(
            ring.rounds * sum(self._job.step_s + hop.latency_s for hop in hops) / len(hops)
            for ring, hops in zip(stretch, rings, strict=True)
        )
        return self._channels.cycle(together, pause, self._ease(stretch, rings, together))

    def _hop(self, hop: tuple[int, int] | TreeOperation) -> Demand:
        plan = self._job.plan
        if isinstance(hop, tuple):
            return self._routes.stream(plan.hosts[hop[0]], plan.hosts[hop[1]], self._name)
        return self._routes.on_tree(
            plan.trees[hop.tree], type(hop), self._job.window, f"{self._name}/tree {hop.tree}"
        )

    def _ease(
        self, stretch: Sequence[Ring], rings: Sequence[Sequence[Demand]], together: Demand
    ) -> float:
        """How long a chunk is sent on its way round, against every position being the slowest."""
        times = [ring.rounds * float(ring.share) for ring in stretch for _ in ring.hops]
        hops = list(chain.from_iterable(rings))
        seconds = 1 / self._rates(hops, times)
        slowest = 1 / self._rates([together], [1.0])[0]
        ends = np.cumsum([len(each) for each in rings])
        means = [float(each.mean()) for each in np.split(seconds, ends[:-1])]
        return min(1.0, max(means) / float(slowest))

    def _rates(self, demands: Sequence[Demand], times: Sequence[float]) -> Floats:
        """Bytes/s of each transfer, sent ``times`` over, if there were nothing else."""
        entries = [
            (position, link, amount * each)
            for position, (demand, each) in enumerate(zip(demands, times, strict=True))
            for link, amount in demand.load.items()
        ]
        position, link, amount = (np.array(column) for column in zip(*entries, strict=True))
        most = np.array([demand.most / each for demand, each in zip(demands, times, strict=True)])
        return max_min(self._routes.capacity, position, link, amount, most)
