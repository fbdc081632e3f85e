"""Messages on their way: each channel gets its max-min fair rate of the links that it takes.

A line is a TCP connection, or a tree's operations of one kind: one message after another. A cycle
is a stretch of a regular plan, whose units go round together.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from testbed.simulation.agenda import Agenda
from testbed.simulation.fairness import Floats, Integers, max_min
from testbed.simulation.routes import Demand

Message = tuple[float, Callable[..., None], tuple[Any, ...]]
"""Bytes, and what to call with which arguments once they have arrived."""

_AT_ONCE = 1e18
"""Bytes/s of a channel that takes no link: its ends are on one host."""

_INSTANT = 1e-12
"""Times this close, relative to the clock, are one."""


@dataclass
class Turn:
    """A unit that goes round in a cycle.

    Attributes:
        bytes: the unit's size; ``left`` is what is still to be done of it.
        arrived: what to call at the end.
    """

    bytes: float
    left: float
    arrived: Callable[..., None]
    arguments: tuple[Any, ...]
    rate: float = 0.0


@dataclass
class Cycle:
    """Units that go round together: each round of each hands on a message at every position.

    Messages of all units take turns on the same connections, so that units share a rate as their
    sizes are. A unit alone is slower than that rate, for it waits ``pause_s`` in all (latency,
    and what a step costs) and ``ease`` of the time that sending takes at the slowest position:
    others may be faster.
    """

    channel: int
    pause_s: float
    ease: float
    turns: list[Turn] = field(default_factory=list)

    def alone(self, turn: Turn, rate: float) -> float:
        """The rate of ``turn`` by itself, where its channel could have ``rate``."""
        return turn.bytes / max(turn.bytes / rate, self.pause_s + self.ease * turn.bytes / rate)

    def wanted(self, rate: float) -> float:
        """What all turns can use of ``rate``."""
        return min(rate, sum(self.alone(turn, rate) for turn in self.turns))

    def share(self, rate: float, unlimited: float) -> None:
        """Divide ``rate`` in proportion to sizes, to none more than it gets alone."""
        left, rising = (
            rate,
            sorted(self.turns, key=lambda turn: self.alone(turn, unlimited) / turn.bytes),
        )
        size = sum(turn.bytes for turn in rising)
        for turn in rising:
            turn.rate = min(self.alone(turn, unlimited), left * turn.bytes / size)
            left, size = left - turn.rate, size - turn.bytes


class _Entries:
    """What channels put on links, as arrays that grow with them."""

    def __init__(self) -> None:
        self._link: list[Integers] = []
        self._amount: list[Floats] = []
        self._size: list[int] = []
        self.link, self.amount, self.start = _EMPTY, np.zeros(0), np.zeros(1, np.intp)

    def add(self, load: dict[int, float]) -> None:
        self._link.append(np.fromiter(load, np.intp, len(load)))
        self._amount.append(np.fromiter(load.values(), float, len(load)))
        self._size.append(len(load))

    def of(self, channels: Integers) -> tuple[Integers, Integers, Floats]:
        """Position in ``channels``, link and amount of every entry of theirs."""
        if len(self.start) <= len(self._size):
            self.link = np.concatenate([_EMPTY, *self._link])
            self.amount = np.concatenate([np.zeros(0), *self._amount])
            self.start = np.concatenate([[0], np.cumsum(self._size)])
        start = self.start[channels]
        size = self.start[channels + 1] - start
        position = np.repeat(np.arange(len(channels)), size)
        before = np.cumsum(size) - size
        entry = np.arange(len(position)) + np.repeat(start - before, size)
        return position, self.link[entry], self.amount[entry]


_EMPTY: Integers = np.zeros(0, np.intp)


class Channels:
    """All channels of all jobs; ``capacity`` of each link in bytes/s."""

    def __init__(self, capacity: Floats, agenda: Agenda, resolution: float) -> None:
        self._capacity, self._agenda, self._resolution = capacity, agenda, resolution
        self._load, self._receipts = _Entries(), _Entries()
        self._queues: list[deque[Message]] = []
        self._cycles: dict[int, Cycle] = {}
        self._latency: list[float] = []
        # By channel: what it is sending, how much of that is left, at what rate, and since ever.
        self._bytes = self._left = self._rate = self._carried = self._most = np.zeros(0)
        self._busy = np.zeros(0, bool)
        self._changed = False
        self._active = _EMPTY

    def line(self, demand: Demand) -> int:
        """A new channel that sends one message after another."""
        channel = len(self._queues)
        self._load.add(demand.load)
        self._receipts.add(demand.receipts)
        self._queues.append(deque())
        self._latency.append(demand.latency_s)
        if channel == len(self._busy):
            room = np.zeros(max(64, channel))
            self._bytes, self._left, self._rate, self._carried, self._most, self._busy = (
                np.append(each, room.astype(each.dtype))
                for each in (
                    self._bytes, self._left, self._rate, self._carried, self._most, self._busy,
                )
            )  # fmt: skip
        # Between ranks on one host nothing limits a channel, so that it needs no time.
        self._most[channel] = demand.most if demand.load else min(demand.most, _AT_ONCE)
        return channel

    def cycle(self, demand: Demand, pause_s: float, ease: float) -> Cycle:
        """A new channel whose units go round together; see `Cycle`."""
        cycle = Cycle(self.line(demand), pause_s, ease)
        self._cycles[cycle.channel] = cycle
        return cycle

    def send(
        self, channel: int, size: float, arrived: Callable[..., None], *arguments: Any
    ) -> None:
        """Queue ``size`` bytes; ``arrived(*arguments)`` is called when they have arrived."""
        queue = self._queues[channel]
        queue.append((size, arrived, arguments))
        if len(queue) == 1:
            self._bytes[channel] = self._left[channel] = size
            self._busy[channel] = self._changed = True

    def turn(
        self, cycle: Cycle, size: float, arrived: Callable[..., None], *arguments: Any
    ) -> None:
        """Let a unit of ``size`` bytes go round; ``arrived(*arguments)`` is called at the end."""
        cycle.turns.append(Turn(size, size, arrived, arguments))
        self._left[cycle.channel] = np.inf
        self._busy[cycle.channel] = self._changed = True

    def settle(self) -> None:
        """Give every channel that has something to send its rate."""
        if not self._changed:
            return
        self._changed = False
        active = self._active = np.flatnonzero(self._busy)
        cap = self._most[active]
        load = self._load.of(active)
        flow, link, amount = self._receipts.of(active)
        rate = max_min(self._capacity, *load, cap)
        # Receipts take what they need of a link, in proportion to what the first round gave.
        taken = np.bincount(link, amount * rate[flow], len(self._capacity))
        left = self._capacity / (1 + taken / self._capacity)
        rate = max_min(left, *load, cap)
        turning = (
            [
                (position, self._cycles[channel])
                for position, channel in enumerate(active.tolist())
                if channel in self._cycles
            ]
            if self._cycles
            else []
        )
        if turning:
            unlimited = rate
            for position, cycle in turning:
                cap[position] = cycle.wanted(rate[position])
            if any(cap[position] < rate[position] for position, _ in turning):
                rate = max_min(left, *load, cap)
            for position, cycle in turning:
                cycle.share(rate[position], unlimited[position])
        self._rate[active] = rate

    @property
    def next(self) -> float:
        """When the next message or unit will have been sent, infinity if there is none."""
        active = self._active
        if not len(active):
            return float("inf")
        soonest = float(np.min(self._left[active] / self._rate[active]))
        for cycle in self._cycles.values():
            soonest = min(soonest, *(turn.left / turn.rate for turn in cycle.turns), soonest)
        return self._agenda.now + soonest

    def advance(self, time: float) -> None:
        """Send until ``time``, at the rates that were settled."""
        active, passed = self._active, time - self._agenda.now
        sent = self._rate[active] * passed
        self._carried[active] += sent
        left = self._left[active] - sent
        self._left[active] = left
        # What the clock cannot tell from nothing is nothing.
        least = self._resolution * self._bytes[active] + self._rate[active] * time * _INSTANT
        together: dict[float, list[Message]] = {}
        for channel in active[left <= least].tolist():
            queue = self._queues[channel]
            together.setdefault(self._latency[channel], []).append(queue.popleft())
            if queue:
                self._bytes[channel] = self._left[channel] = queue[0][0]
            else:
                self._busy[channel], self._changed = False, True
        for latency, messages in together.items():
            self._agenda.at(time + latency, _deliver, messages)
        for cycle in self._cycles.values():
            self._go_round(cycle, time, passed)

    def _go_round(self, cycle: Cycle, time: float, passed: float) -> None:
        over = []
        for turn in cycle.turns:
            turn.left -= turn.rate * passed
            if turn.left <= self._resolution * turn.bytes + turn.rate * time * _INSTANT:
                over.append(turn)
        for turn in over:
            cycle.turns.remove(turn)
            self._agenda.at(time, turn.arrived, *turn.arguments)
            self._changed = True
        if over and not cycle.turns:
            self._busy[cycle.channel] = False

    def carried(self) -> Floats:
        """Bytes that each link has carried."""
        total = np.zeros(len(self._capacity))
        everything = np.arange(len(self._queues))
        for entries in (self._load, self._receipts):
            channel, link, amount = entries.of(everything)
            total += np.bincount(link, amount * self._carried[channel], len(total))
        return total


def _deliver(messages: Sequence[Message]) -> None:
    for _, arrived, arguments in messages:
        arrived(*arguments)
