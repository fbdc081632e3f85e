"""Whether links keep to the rates that they were given.

Faster than its rate is judged over each second. Slower is judged where it can be told for sure:
what waits in a queue has work for its link for as long as it takes to leave at the link's rate, so
a pair of readings closer together than that shows what the link makes of its rate.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from testbed.backends.emulation.node_setup import slack_bytes
from testbed.backends.emulation.queues import Reading
from testbed.topology.addressing import Addressing
from testbed.topology.fabric import Fabric

PERIOD_S = 1.0
LARGEST_SHARE = 0.01
"""Of one core, that reading may cost: on a large fabric it is done less often."""

_SHORTEST_GAP_S, _LONGEST_GAP_S = 0.005, 0.05


@dataclass
class Port:
    """What one sending end of a link made of its ``rate`` (bit/s on the emulator's clock).

    ``queue`` is its size in bytes, ``slack`` what a shaper may let pass beyond its rate in any
    stretch of time (bytes). ``most`` is the largest share of the rate that left in any second, the
    slack not counted. ``busy_s`` is time in which packets waited all along, ``owed`` the bytes that
    should have left in it, ``paid`` those that did.
    """

    rate: float
    queue: int
    slack: int
    most: float = 0.0
    busy_s: float = 0.0
    owed: float = 0.0
    paid: float = 0.0

    def passed(self, before: Reading, after: Reading) -> None:
        """Look at what left between two readings."""
        sent = after.sent_bytes - before.sent_bytes - self.slack
        self.most = max(self.most, sent * 8 / self.rate / (after.ended - before.begun))

    def waited(self, before: Reading, after: Reading) -> None:
        """Look at what left between two readings, if there was work all along."""
        # Later readings say only what had left by some time after their beginning.
        if before.waiting_bytes * 8 / self.rate < after.ended - before.begun:
            return
        between = after.begun - before.ended
        self.busy_s += between
        self.owed += between * self.rate / 8
        self.paid += after.sent_bytes - before.sent_bytes

    @property
    def share(self) -> float | None:
        """What part of its rate it carried while packets waited; None if that was too short."""
        owed = self.owed - self.slack
        return self.paid / owed if owed > 0 else None


@dataclass
class Rates:
    """Call :meth:`sample` often; it watches each of ``ports`` through ``read``, by interface."""

    ports: Mapping[str, Port]
    read: Callable[[], Mapping[str, Reading]]
    _last: Mapping[str, Reading] = field(default_factory=dict)
    _next: float = 0.0

    def start(self) -> None:
        self._last = self.read()
        self._next = time.monotonic() + PERIOD_S

    def sample(self) -> None:
        if time.monotonic() >= self._next:
            self._look()

    def stop(self) -> None:
        self._look()

    def _look(self) -> None:
        began = time.process_time()
        first = self.read()
        time.sleep(self._gap())
        second = self.read()
        for name, port in self.ports.items():
            if name in self._last:
                port.passed(self._last[name], first[name])
            port.waited(first[name], second[name])
        self._last = first
        cost = time.process_time() - began
        self._next = time.monotonic() + max(PERIOD_S, cost / LARGEST_SHARE)

    def _gap(self) -> float:
        shortest = min((port.queue * 8 / port.rate for port in self.ports.values()), default=0.0)
        return min(max(shortest / 2, _SHORTEST_GAP_S), _LONGEST_GAP_S)


def ports(fabric: Fabric, addressing: Addressing, dilation: float) -> dict[str, Port]:
    """Both sending ends of every link, by interface."""
    return {
        addressing.interface(*ends): Port(
            link.rate / dilation, link.queue, slack_bytes(fabric, link.rate / dilation)
        )
        for link in fabric.links
        for ends in ((link.a, link.b), (link.b, link.a))
    }
