"""Units that go around the rings of a regular plan together, without simulating each round."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Leg:
    """A stretch of a unit's way around.

    Attributes:
        part: the time at its slowest position, relative to the sum of these times over all legs.
        ease: the sending time at the mean position, relative to the slowest.
        pause_s: the time that all rounds wait, for packets in flight and for hosts.
        first_s: the first round's part of ``pause_s``, which a unit that queues behind another does
            not wait.
    """

    part: float
    ease: float
    pause_s: float
    first_s: float


@dataclass
class Turn:
    """A unit of ``bytes`` in flight, with the bytes ``left`` and its ``rate``."""

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
    the mean position, whichever is longer. So a unit may be slower than its channel, and others use
    the rest. Messages of all units take turns, and the rate is shared in proportion to the units'
    sizes. But operations on trees run one after another, and so do ``queued`` units.
    """

    channel: int
    legs: Sequence[Leg]
    queued: bool
    turns: list[Turn] = field(default_factory=list)

    @property
    def going(self) -> list[Turn]:
        """The units in flight."""
        return self.turns[:1] if self.queued else self.turns

    def add(self, size: float, arrived: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        """Add a unit of ``size`` bytes."""
        follows = self.queued and bool(self.turns)
        self.turns.append(Turn(size, size, follows, arrived, arguments))

    def alone(self, turn: Turn, rate: float) -> float:
        """The rate of ``turn`` if it is alone and its messages are sent at ``rate``."""
        time = 0.0
        for leg in self.legs:
            sending = leg.part * turn.bytes / rate
            first = 0.0 if turn.follows else leg.first_s
            pause = leg.pause_s - leg.first_s + first
            time += max(first + sending, pause + leg.ease * sending)
        return turn.bytes / time if time > 0 else rate

    def wanted(self, rate: float) -> float:
        """The part of ``rate`` that all units together can use."""
        return min(rate, sum(self.alone(turn, rate) for turn in self.going))

    def share(self, rate: float, sending: float) -> None:
        """Divide ``rate`` in proportion to the units' sizes. No unit gets more than it would have
        alone at ``sending``."""
        alone = [(self.alone(turn, sending), turn) for turn in self.going]
        left, size = rate, sum(turn.bytes for _, turn in alone)
        for most, turn in sorted(alone, key=lambda each: each[0] / each[1].bytes):
            turn.rate = min(most, left * turn.bytes / size)
            left, size = left - turn.rate, size - turn.bytes
