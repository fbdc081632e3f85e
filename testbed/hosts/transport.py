"""A rank as steps, and the transport of its messages and fragments.

A rank reads no clock and no socket. It yields the time until which it has nothing to do. A driver
resumes it at that time, or as soon as its transport has something for it. `driver` uses the
machine's clock and sockets; the tests use a clock of their own.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Mapping
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from testbed.hosts.messages import Message, Values
from testbed.hosts.task import RankOutcome
from testbed.plan.program import TreeOperation

Steps: TypeAlias = Generator[float, float, None]
"""Yields the time until which it waits, in seconds on the driver's clock. It is sent the time at
which it resumes, which is earlier if its transport has something for it."""

AT_ONCE = -math.inf
"""Resume now: the rank has something to do and only needs the time."""

NEVER = math.inf
"""The rank waits only for its transport."""


class Flow(Protocol):
    """Carries a tree's fragments at this rank."""

    def push(self, operation: TreeOperation, values: Values, priority: int) -> int:
        """Make ``values``, int32, the tree's next fragments; returns their number. The last one may
        be partly filled. ``values`` must stay in place until they are done. ``priority`` is that of
        their packets in switches' memory (`Unit.priority`)."""

    def done(self) -> int:
        """Number of fragments done without a gap, counted from the first."""

    def floats(self) -> npt.NDArray[np.uint64]:
        """All fragments so far whose sums are floats."""


class Transport(Protocol):
    """Connects a rank with others."""

    @property
    def flows(self) -> Mapping[int, Flow]:
        """The trees in which the rank takes part, by their number in the plan."""

    def finished(self) -> Iterable[int]:
        """The trees on which an operation may have ended since the last call, in order."""

    def send(self, to: int, message: Message) -> None:
        """Send a copy of ``message`` to rank ``to``, in order."""

    def arrived(self) -> Iterable[tuple[int, Message]]:
        """Messages completed since the last call, each with its source."""

    def flush(self) -> None:
        """Send everything queued: the rank is busy from now on."""

    def account(self, outcome: RankOutcome) -> None:
        """Add the counts of the trees' senders and roots."""


class Rank(Protocol):
    """A worker or a server."""

    @property
    def peers(self) -> Iterable[int]:
        """The ranks that it sends to over streams."""

    def steps(self, start: float) -> Steps:
        """Its work from ``start`` on: a worker's ends by itself, a server's runs until stopped."""

    def outcome(self) -> RankOutcome:
        """Its results; called once, at the end."""


@runtime_checkable
class Taker(Protocol):
    """A rank that can process a message without being resumed.

    With many messages, resuming the steps for each would take most of the time.
    """

    @property
    def takes(self) -> bool:
        """Whether a driver may call :meth:`take`."""

    def take(self, source: int, message: Message, now: float) -> bool:
        """Process a message from rank ``source`` while the rank waits only for its transport. The
        transport does not deliver that message. Returns whether the rank must be resumed."""
