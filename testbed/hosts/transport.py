"""A rank as steps, and what carries its messages and fragments between them.

No rank reads a clock or a socket. It says until when it has nothing to do, and a driver goes on
with it then, or as soon as its transport has something for it: `driver` on the machine's clock and
sockets, tests on a clock of their own.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Mapping
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from testbed.hosts.messages import Message, Values
from testbed.hosts.task import RankOutcome
from testbed.plan.program import TreeOperation

Steps: TypeAlias = Generator[float, float, None]
"""Yields until when it waits, seconds on the driver's clock; is sent the time at which it goes on.

Whatever it waits for, it also goes on when its transport has something for it."""

AT_ONCE = -math.inf
"""It has something to do now, and wants no more than to be told the time."""

NEVER = math.inf
"""It waits for its transport only."""


class Flow(Protocol):
    """What carries a tree's fragments at this rank."""

    def push(self, operation: TreeOperation, values: Values) -> int:
        """The next fragments of the tree are those of ``values``, whole packets of int32; how many
        they are. ``values`` stay where they are until these are done."""

    def done(self) -> int:
        """How many fragments, counted from the first, are done without a gap."""

    def floats(self) -> npt.NDArray[np.uint64]:
        """All fragments so far whose sum is in the form of floats."""


class Transport(Protocol):
    """All that connects a rank with others."""

    @property
    def flows(self) -> Mapping[int, Flow]:
        """The trees in which the rank takes part, by their number in the plan."""

    def send(self, to: int, message: Message) -> None:
        """Send a copy of ``message`` to rank ``to``, behind what was sent there before."""

    def arrived(self) -> Iterable[tuple[int, Message]]:
        """Messages that have arrived whole since the last call, each with its source."""

    def flush(self) -> None:
        """The rank is busy from now on: let nothing that it has sent wait for it."""

    def account(self, outcome: RankOutcome) -> None:
        """Add what the trees' senders and roots counted."""


class Rank(Protocol):
    """A worker or a server."""

    @property
    def peers(self) -> Iterable[int]:
        """The ranks that it sends to over streams."""

    def steps(self, start: float) -> Steps:
        """Its work from ``start`` on: a worker's ends, a server's goes on until it is told to."""

    def outcome(self) -> RankOutcome:
        """What it saw; asked for once, at the end."""
