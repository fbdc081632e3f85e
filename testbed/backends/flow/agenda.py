"""The event queue: events in time, and those that they cause at the same time."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Any

_SAME = 1e-12
"""Times this close, relative to the clock, are equal."""

Event = Callable[..., None]


class Agenda:
    """Events ordered by time, then by when they were added."""

    def __init__(self) -> None:
        self.now = 0.0
        self._later: list[tuple[float, int, Event, tuple[Any, ...]]] = []
        self._at_once: deque[tuple[Event, tuple[Any, ...]]] = deque()
        self._number = count()

    def at(self, time: float, event: Event, *arguments: Any) -> None:
        """Call ``event`` at ``time``, or at once if that has passed."""
        if time <= self.now:
            self._at_once.append((event, arguments))
        else:
            heapq.heappush(self._later, (time, next(self._number), event, arguments))

    def after(self, delay: float, event: Event, *arguments: Any) -> None:
        self.at(self.now + delay, event, *arguments)

    @property
    def next(self) -> float:
        """When the next event is due, infinity if there is none."""
        if self._at_once:
            return self.now
        return self._later[0][0] if self._later else float("inf")

    def advance(self, time: float) -> None:
        """Set the clock to ``time``, and call all events that are due, new ones included."""
        self.now = time
        due = time * (1 + _SAME)
        while self._at_once or (self._later and self._later[0][0] <= due):
            if self._at_once:
                event, arguments = self._at_once.popleft()
            else:
                _, _, event, arguments = heapq.heappop(self._later)
            event(*arguments)
