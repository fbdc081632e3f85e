"""Messages in flight, each channel at its max-min fair rate.

A line is a TCP connection, or a tree's operations of one kind: one message after another. A cycle
stands for the rings of a regular plan, around which units go together.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from testbed.backends.flow.agenda import Agenda
from testbed.backends.flow.cycles import Cycle, Leg
from testbed.backends.flow.fairness import Floats, Integers
from testbed.backends.flow.routes import Demand
from testbed.backends.flow.sharing import Sharing

Message = tuple[float, Callable[..., None], tuple[Any, ...]]
"""Bytes; the function to call once they have arrived, and its arguments."""

_INSTANT = 1e-12
"""Times this close, relative to the clock, are equal."""

_RESOLUTION = 1e-6
"""A message counts as sent when at most this part of it remains, so that messages that end nearly
together end together."""


class Channels:
    """All channels of all jobs.

    ``next`` is when the next message or unit will have been sent; infinity if there is none.
    """

    def __init__(self, capacity: Floats, agenda: Agenda) -> None:
        self._sharing, self._agenda = Sharing(capacity), agenda
        self._queues: list[deque[Message]] = []
        self._cycles: dict[int, Cycle] = {}
        self._latency: list[float] = []
        # By channel: the message's bytes, its bytes left, the rate, and all bytes sent so far.
        self._bytes, self._left, self._rate, self._sent = np.zeros((4, 64))
        self._busy = np.zeros(64, bool)
        self._active: Integers = np.zeros(0, np.intp)
        self._turning: list[Cycle] = []
        self._changed = False
        self._until = 0.0
        self.next = float("inf")

    def line(self, demand: Demand) -> int:
        """A new channel that sends one message after another."""
        channel = self._sharing.add(demand)
        self._queues.append(deque())
        self._latency.append(demand.latency_s)
        if channel == len(self._busy):
            self._bytes, self._left, self._rate, self._sent = (
                np.append(each, np.zeros(channel))
                for each in (self._bytes, self._left, self._rate, self._sent)
            )
            self._busy = np.append(self._busy, np.zeros(channel, bool))
        return channel

    def cycle(self, demand: Demand, legs: Sequence[Leg], queued: bool) -> Cycle:
        """A new channel whose units go around rings; see `Cycle`."""
        cycle = Cycle(self.line(demand), legs, queued)
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
        """Send a unit of ``size`` bytes around the rings; ``arrived(*arguments)`` is called at the
        end."""
        cycle.add(size, arrived, arguments)
        self._left[cycle.channel] = np.inf
        self._busy[cycle.channel] = self._changed = True

    def settle(self) -> None:
        """Set the rate of every channel that has something to send."""
        if self._changed:
            self._send_until(self._agenda.now)
            self._changed = False
            self._active = np.flatnonzero(self._busy)
            self._turning = [
                cycle for channel, cycle in self._cycles.items() if self._busy[channel]
            ]
            self._rate[self._active] = self._sharing.rates(self._active, self._turning)
            self._foresee()

    def _foresee(self) -> None:
        times = self._left[self._active] / self._rate[self._active]
        soonest = min(times.tolist(), default=float("inf"))
        for cycle in self._turning:
            soonest = min([soonest, *(turn.left / turn.rate for turn in cycle.going)])
        self.next = self._until + soonest

    def _send_until(self, time: float) -> None:
        """Account for the bytes sent since the last call, at the current rates."""
        passed, self._until = time - self._until, time
        sent = self._rate[self._active] * passed
        self._sent[self._active] += sent
        self._left[self._active] -= sent
        for cycle in self._turning:
            for turn in cycle.going:
                turn.left -= turn.rate * passed

    def complete(self, time: float) -> None:
        """Complete what has been sent by ``time``, which must be ``next``."""
        self._send_until(time)
        active = self._active
        # Bytes that take less time than the clock can resolve count as sent.
        least = _RESOLUTION * self._bytes[active] + self._rate[active] * time * _INSTANT
        together: dict[float, list[Message]] = {}
        for channel in active[self._left[active] <= least].tolist():
            queue = self._queues[channel]
            together.setdefault(self._latency[channel], []).append(queue.popleft())
            if queue:
                self._bytes[channel] = self._left[channel] = queue[0][0]
            else:
                self._busy[channel], self._changed = False, True
        for latency, messages in together.items():
            self._agenda.at(time + latency, _deliver, messages)
        for cycle in self._turning:
            self._end_turns(cycle, time)
        if not self._changed:
            self._foresee()

    def _end_turns(self, cycle: Cycle, time: float) -> None:
        for turn in tuple(cycle.going):
            if turn.left <= _RESOLUTION * turn.bytes + turn.rate * time * _INSTANT:
                cycle.turns.remove(turn)
                self._agenda.at(time, turn.arrived, *turn.arguments)
                self._changed = True
        if not cycle.turns:
            self._busy[cycle.channel] = False

    def carried(self) -> Floats:
        """Bytes that each link has carried."""
        return self._sharing.carried(self._sent[: len(self._queues)])


def _deliver(messages: Sequence[Message]) -> None:
    for _, arrived, arguments in messages:
        arrived(*arguments)
