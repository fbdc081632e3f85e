"""Units that go round together in the rings of a regular plan, without a look at each round."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Leg:
    """A stretch of a unit's way.

    Attributes:
        part: how long it takes at the slowest position, against what all legs together take at
            theirs.
        ease: how long sending takes at the mean position, against the slowest.
        pause_s: what all rounds wait, for packets on their way and for hosts.
        first_s: what the first one waits of that, unless it queues behind another unit.
    """

    part: float
    ease: float
    pause_s: float
    first_s: float


@dataclass
class Turn:
    """A unit of ``bytes`` under way: what is ``left``, at what ``rate`` it goes on."""

    bytes: float
    left: float
    follows: bool
    arrived: Callable[..., None]
    arguments: tuple[Any, ...]
    rate: float = 0.0


@dataclass
class Cycle:
    """Units on the same rings.

    A round lasts as long as the slowest position sends, or as long as sending and pauses take at
    the mean of all positions: whichever is more. So a unit may be slower than its channel, which
    another one then uses: messages of all units take turns, and a rate is shared as sizes are.
    Operations on trees, however, follow one another, and so do units that are ``queued``.
    """

    channel: int
    legs: Sequence[Leg]
    queued: bool
    turns: list[Turn] = field(default_factory=list)

    @property
    def going(self) -> list[Turn]:
        """The units that are under way."""
        return self.turns[:1] if self.queued else self.turns

    def add(self, size: float, arrived: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        """A unit of ``size`` bytes comes to the rings."""
        follows = self.queued and bool(self.turns)
        self.turns.append(Turn(size, size, follows, arrived, arguments))

    def alone(self, turn: Turn, rate: float) -> float:
        """The rate of ``turn`` by itself, where messages are sent at ``rate``."""
        time = 0.0
        for leg in self.legs:
            sending = leg.part * turn.bytes / rate
            first = 0.0 if turn.follows else leg.first_s
            pause = leg.pause_s - leg.first_s + first
            time += max(first + sending, pause + leg.ease * sending)
        return turn.bytes / time if time > 0 else rate

    def wanted(self, rate: float) -> float:
        """What all units can use of ``rate``."""
        return min(rate, sum(self.alone(turn, rate) for turn in self.going))

    def share(self, rate: float, sending: float) -> None:
        """Divide ``rate`` in proportion to sizes, to none more than ``sending`` gives it alone."""
        alone = [(self.alone(turn, sending), turn) for turn in self.going]
        left, size = rate, sum(turn.bytes for _, turn in alone)
        for most, turn in sorted(alone, key=lambda each: each[0] / each[1].bytes):
            turn.rate = min(most, left * turn.bytes / size)
            left, size = left - turn.rate, size - turn.bytes
