"""Could the machine carry the run? Sampled while it runs, said in words afterwards.

The rule for the processor follows Mininet-HiFi (Handigol et al., Reproducible Network
Experiments Using Container-Based Emulation, CoNEXT 2012), whose published runs had at least
35 % idle time in every second. Here a run with less idle time than ``IDLE_FLOOR`` in any second
is not valid; neither is one that lost packets where no link was full, or whose processes were
woken so late that an iteration is off by more than ``LATE_SHARE``.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

IDLE_FLOOR = 0.35
LATE_SHARE = 0.05
VALID = "valid"

_STAT = Path("/proc/stat")


@dataclass
class Sampler:
    """Call :meth:`sample` often; it keeps the idle share of every second that passes.

    On a virtual machine, time that the host gave to others (steal) is not idle time.
    """

    period_s: float = 1.0
    idle: list[float] = field(default_factory=list)
    _at: float = 0.0
    _counters: tuple[int, int] = (0, 0)

    def start(self) -> None:
        self.idle.clear()
        self._at, self._counters = time.monotonic(), _read()

    def sample(self) -> None:
        if time.monotonic() - self._at >= self.period_s:
            self._close()

    def stop(self) -> None:
        """Close the last stretch, if it is long enough for clock ticks to mean much."""
        if not self.idle or time.monotonic() - self._at >= self.period_s / 2:
            self._close()

    def _close(self) -> None:
        now = _read()
        idle, total = (new - old for new, old in zip(now, self._counters, strict=True))
        if total > 0:
            self.idle.append(idle / total)
        self._at, self._counters = time.monotonic(), now


def _read() -> tuple[int, int]:
    """Idle and total ticks of all processors since boot."""
    user, nice, system, idle, iowait, irq, softirq, steal, *_ = map(
        int, _STAT.read_text().split("\n", 1)[0].split()[1:]
    )
    waiting = idle + iowait
    return waiting, waiting + user + nice + system + irq + softirq + steal


def verdict(
    idle: list[float],
    late_s: float,
    iteration_s: float,
    lost: Mapping[str, int],
    dead: Mapping[str, str] | None = None,
) -> str:
    """``valid``, or every reason why the row must not be compared.

    ``idle`` is the idle share of each second, ``late_s`` the worst wake-up delay,
    ``iteration_s`` a mean iteration on the same clock, ``lost`` packets lost per place other than
    a full link's queue, ``dead`` switches that ended, with the reason.
    """
    reasons = []
    if idle and min(idle) < IDLE_FLOOR:
        short = sum(share < IDLE_FLOOR for share in idle)
        reasons.append(
            f"processor idle only {min(idle):.0%} in its busiest second "
            f"({short} of {len(idle)} seconds under {IDLE_FLOOR:.0%})"
        )
    if iteration_s > 0 and late_s > LATE_SHARE * iteration_s:
        reasons.append(
            f"a process was woken {late_s * 1e3:.0f} ms late, "
            f"{late_s / iteration_s:.0%} of an iteration"
        )
    reasons += [f"{count} packets lost in {place}" for place, count in lost.items() if count]
    reasons += [f"{name}: {reason}" for name, reason in (dead or {}).items()]
    return "; ".join(reasons) or VALID
