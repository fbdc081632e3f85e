"""What rate each channel gets while nothing begins or ends."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from testbed.simulation.cycles import Cycle
from testbed.simulation.fairness import Floats, Integers, max_min
from testbed.simulation.routes import Demand, Load

_EMPTY: Integers = np.zeros(0, np.intp)

_AT_ONCE = 1e18
"""Bytes/s of a channel that takes no link: its ends are on one host."""

_ROUNDS = 3
"""How often cycles are asked again what they can use of what the others leave over."""


class Sharing:
    """The links, of ``capacity`` bytes/s each, and what every channel puts on them."""

    def __init__(self, capacity: Floats) -> None:
        self._capacity = capacity
        self._load, self._receipts = _Entries(), _Entries()
        self._most: list[float] = []

    def add(self, demand: Demand) -> int:
        """A channel's number; they count from 0."""
        self._load.add(demand.load)
        self._receipts.add(demand.receipts)
        self._most.append(demand.most if demand.load else min(demand.most, _AT_ONCE))
        return len(self._most) - 1

    def rates(self, active: Integers, cycles: Sequence[Cycle]) -> Floats:
        """Bytes/s of each of the channels ``active``, in rising order; sets the cycles' own, too.

        ``cycles`` are those among them.
        """
        most = np.array([self._most[channel] for channel in active.tolist()])
        position, link, amount = self._load.of(active)
        rate = max_min(self._capacity, position, link, amount, most)
        # Receipts take what they need of a link, whoever shares it.
        of, on, receipt = self._receipts.of(active)
        taken = np.bincount(on, receipt * rate[of], len(self._capacity))
        left = self._capacity / (1 + taken / self._capacity)
        fair = rate = max_min(left, position, link, amount, most)
        if not cycles:
            return rate
        place = np.searchsorted(active, [cycle.channel for cycle in cycles])
        sending = fair
        for _ in range(_ROUNDS):
            wanted = most.copy()
            wanted[place] = [
                cycle.wanted(float(sending[at])) for at, cycle in zip(place, cycles, strict=True)
            ]
            if np.all(wanted[place] >= sending[place]):
                break
            rate = max_min(left, position, link, amount, wanted)
            # A message is sent faster where others pause.
            spare = left - np.bincount(link, amount * rate[position], len(left))
            more = np.full(len(active), np.inf)
            np.minimum.at(more, position, spare[link] / amount)
            sending = np.minimum(np.maximum(fair, rate + more), most)
        for at, cycle in zip(place, cycles, strict=True):
            cycle.share(float(rate[at]), float(sending[at]))
        return rate

    def carried(self, sent: Floats) -> Floats:
        """Bytes on each link, after each channel has sent so much."""
        total = np.zeros(len(self._capacity))
        for entries in (self._load, self._receipts):
            channel, link, amount = entries.of(np.arange(len(sent)))
            total += np.bincount(link, amount * sent[channel], len(total))
        return total


class _Entries:
    """What channels put on links, as arrays that grow with them."""

    def __init__(self) -> None:
        self._link: list[Integers] = []
        self._amount: list[Floats] = []
        self._known = 0
        self._all_links, self._all_amounts, self._start = _EMPTY, np.zeros(0), _EMPTY

    def add(self, load: Load) -> None:
        self._link.append(np.fromiter(load, np.intp, len(load)))
        self._amount.append(np.fromiter(load.values(), float, len(load)))

    def of(self, channels: Integers) -> tuple[Integers, Integers, Floats]:
        """For each of their entries: place in ``channels``, link and amount."""
        if self._known < len(self._link):
            self._known = len(self._link)
            self._all_links = np.concatenate([_EMPTY, *self._link])
            self._all_amounts = np.concatenate([np.zeros(0), *self._amount])
            self._start = np.cumsum([0, *map(len, self._link)])
        start = self._start[channels]
        size = self._start[channels + 1] - start
        place = np.repeat(np.arange(len(channels)), size)
        before = np.cumsum(size) - size
        entry = np.arange(len(place)) + np.repeat(start - before, size)
        return place, self._all_links[entry], self._all_amounts[entry]
