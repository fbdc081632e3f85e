"""Whether links keep to their configured rates.

Whether a link is too fast is judged over each second. Whether it is too slow is judged only while
it is certainly busy. The bytes in its queue keep it busy for as long as they take to leave at its
rate. So two readings that are closer together than that show the rate that it achieves.
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
"""The share of one core that readings may cost. On a large fabric they are made less often."""

_SHORTEST_GAP_S, _LONGEST_GAP_S = 0.005, 0.05


@dataclass
class Port:
    """How one sending end of a link used its ``rate`` (bit/s on the emulator's clock).

    ``queue`` is its size in bytes. ``slack`` is how many bytes the shaper may let pass beyond the
    rate in any period. ``most`` is the largest share of the rate sent in any second, without the
    slack. ``busy_s`` is the time in which packets waited throughout; ``owed`` is how many bytes
    should have left in it, ``paid`` how many did.
    """

    rate: float
    queue: int
    slack: int
    most: float = 0.0
    busy_s: float = 0.0
    owed: float = 0.0
    paid: float = 0.0

    def passed(self, before: Reading, after: Reading) -> None:
        """Account for what left between two readings."""
        sent = after.sent_bytes - before.sent_bytes - self.slack
        self.most = max(self.most, sent * 8 / self.rate / (after.ended - before.begun))

    def waited(self, before: Reading, after: Reading) -> None:
        """Account for what left between two readings, if packets waited throughout."""
        # The second reading may be from any moment until it ended.
        if before.waiting_bytes * 8 / self.rate < after.ended - before.begun:
            return
        between = after.begun - before.ended
        self.busy_s += between
        self.owed += between * self.rate / 8
        self.paid += after.sent_bytes - before.sent_bytes

    @property
    def share(self) -> float | None:
        """The share of its rate that it sent while packets waited; None if that time was too
        short."""
        owed = self.owed - self.slack
        return self.paid / owed if owed > 0 else None


@dataclass
class Rates:
    """Watches ``ports``, by interface, through ``read``. Call :meth:`sample` often."""

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


def ports(
    fabric: Fabric, addressing: Addressing, dilation: float, superframe: int
) -> dict[str, Port]:
    """Both sending ends of every link, by interface. A frame may hold ``superframe`` packets."""
    return {
        addressing.interface(*ends): Port(
            link.rate / dilation, link.queue, slack_bytes(fabric, link.rate / dilation, superframe)
        )
        for link in fabric.links
        for ends in ((link.a, link.b), (link.b, link.a))
    }
