"""A network in virtual time: engines around a switch that forwards packets and loses some."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import count
from random import Random
from typing import Protocol

HOP = 1e-4


class Driven(Protocol):
    """An engine, or a test's substitute for one."""

    def take(self, packet: bytes, now: float) -> None: ...

    def pump(self, now: float) -> float: ...

    def packets(self) -> Iterator[tuple[str, bytes]]: ...


class Star:
    """``engines`` by address. Those at ``hosts`` have a link. In each direction it sends one packet
    at a time, takes ``pace`` seconds for it, and loses a share ``loss`` of packets."""

    def __init__(
        self,
        engines: Mapping[str, Driven],
        hosts: Collection[str],
        pace: Callable[[bytes], float],
        loss: float = 0.0,
        seed: int = 1,
    ) -> None:
        self.now = 1000.0
        self._engines, self._hosts, self._pace, self._loss = engines, hosts, pace, loss
        self._random = Random(seed)
        self._free: dict[tuple[str, str], float] = defaultdict(float)
        self._events: list[tuple[float, int, str, bytes]] = []
        self._numbers = count()
        self._due = dict.fromkeys(engines, self.now)

    def run(self, done: Callable[[], bool], patience: float) -> float:
        """Run until it is ``done``, and return the seconds that it took. Raises AssertionError
        after ``patience`` seconds."""
        begin = self.now
        while not done():
            arrival = self._events[0][0] if self._events else float("inf")
            who = min(self._due, key=self._due.__getitem__)
            if arrival <= self._due[who]:
                self.now, _, who, packet = heapq.heappop(self._events)
                self._engines[who].take(packet, self.now)
            else:
                self.now = max(self.now, self._due[who])
            self.pump(who)
            assert self.now - begin < patience, "it stands still"
        return self.now - begin

    def pump(self, who: str) -> None:
        """Let ``who`` continue, as after a push."""
        engine = self._engines[who]
        # At least a moment later, because everything that is due now has been done.
        self._due[who] = max(engine.pump(self.now), self.now + 1e-6)
        for to, packet in engine.packets():
            self._carry(who, to, packet)

    def _carry(self, source: str, to: str, packet: bytes) -> None:
        at = self.now
        for host, way in ((source, "up"), (to, "down")):
            if host not in self._hosts:
                continue
            at = self._free[host, way] = max(self._free[host, way], at) + self._pace(packet)
            at += HOP
            if self._random.random() < self._loss:
                return
        heapq.heappush(self._events, (at, next(self._numbers), to, packet))
