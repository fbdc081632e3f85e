"""The rate of each channel while no message begins or ends."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from testbed.backends.flow.cycles import Cycle
from testbed.backends.flow.fairness import Floats, Integers, max_min
from testbed.backends.flow.routes import Demand, Load

_AT_ONCE = 1e18
"""Bytes/s of a channel without links: both its ends are on one host."""

_ROUNDS = 3
"""How many times the rates of cycles are refined by what the others leave over."""


class Sharing:
    """The links, with their ``capacity`` in bytes/s, and the load of every channel on them."""

    def __init__(self, capacity: Floats) -> None:
        self._capacity = capacity
        self._load, self._receipts = _Entries(), _Entries()
        self._most: list[float] = []

    def add(self, demand: Demand) -> int:
        """Add a channel, and return its number, from 0."""
        self._load.add(demand.load)
        self._receipts.add(demand.receipts)
        self._most.append(demand.most if demand.load else min(demand.most, _AT_ONCE))
        return len(self._most) - 1

    def rates(self, active: Integers, cycles: Sequence[Cycle]) -> Floats:
        """Bytes/s of each of the ``active`` channels, given in ascending order.

        ``cycles`` are the cycles among them; the rates of their units are set, too.
        """
        most = np.array([self._most[channel] for channel in active.tolist()])
        position, link, amount = self._load.of(active)
        of, on, receipt = self._receipts.of(active)
        capacity = self._capacity
        if len(link) < len(capacity):  # a few flows on a large fabric
            used, number = np.unique(np.concatenate([link, on]), return_inverse=True)
            capacity, link, on = capacity[used], number[: len(link)], number[len(link) :]
        rate = max_min(capacity, position, link, amount, most)
        # Acknowledgements take what they need of a link before streams share the rest.
        taken = np.bincount(on, receipt * rate[of], len(capacity))
        left = capacity / (1 + taken / capacity)
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
            # Messages are sent faster while others pause.
            spare = left - np.bincount(link, amount * rate[position], len(left))
            more = np.full(len(active), np.inf)
            np.minimum.at(more, position, spare[link] / amount)
            sending = np.minimum(np.maximum(fair, rate + more), most)
        for at, cycle in zip(place, cycles, strict=True):
            cycle.share(float(rate[at]), float(sending[at]))
        return rate

    def carried(self, sent: Floats) -> Floats:
        """Bytes on each link after the channels have ``sent`` theirs."""
        total = np.zeros(len(self._capacity))
        for entries in (self._load, self._receipts):
            channel, link, amount = entries.of(np.arange(len(sent)))
            total += np.bincount(link, amount * sent[channel], len(total))
        return total


class _Entries:
    """The load of channels on links: growing arrays, and where each channel's entries end."""

    def __init__(self) -> None:
        self._link, self._amount = np.zeros(64, np.intp), np.zeros(64)
        self._end = np.zeros(64, np.intp)  # element 0 is where the first channel's entries begin
        self._channels = 0

    def add(self, load: Load) -> None:
        start = self._end[self._channels]
        end = start + len(load)
        self._channels += 1
        if self._channels == len(self._end):
            self._end = np.resize(self._end, 2 * len(self._end))
        if end > len(self._link):
            self._link, self._amount = (
                np.resize(each, 2 * end) for each in (self._link, self._amount)
            )
        self._end[self._channels] = end
        self._link[start:end] = list(load)
        self._amount[start:end] = list(load.values())

    def of(self, channels: Integers) -> tuple[Integers, Integers, Floats]:
        """For each entry of ``channels``: its place in them, link and amount."""
        start = self._end[channels]
        size = self._end[channels + 1] - start
        place = np.repeat(np.arange(len(channels)), size)
        before = np.cumsum(size) - size
        entry = np.arange(len(place)) + np.repeat(start - before, size)
        return place, self._link[entry], self._amount[entry]
