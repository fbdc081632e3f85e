"""How busy the processors were in each second of a run."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

_STAT, _PRESSURE = Path("/proc/stat"), Path("/proc/pressure/cpu")


@dataclass
class Sampler:
    """Records two shares of every second. Call :meth:`sample` often.

    ``idle``: the share of processor time that was idle. On a virtual machine, time that the host
    gave to others (steal) is not idle. ``waiting``: the share of the second in which at least one
    runnable process had no processor; empty if the kernel does not report it. ``seconds`` is the
    time that the two cover.
    """

    period_s: float = 1.0
    idle: list[float] = field(default_factory=list)
    waiting: list[float] = field(default_factory=list)
    seconds: float = 0.0
    _at: float = 0.0
    _ticks: tuple[int, int] = (0, 0)
    _stalled: float | None = None

    def start(self) -> None:
        self.idle.clear()
        self.waiting.clear()
        self.seconds = 0.0
        self._at, self._ticks, self._stalled = time.monotonic(), _ticks(), _stalled()

    def sample(self) -> None:
        if time.monotonic() - self._at >= self.period_s:
            self._close()

    def stop(self) -> None:
        """Record the last period, if it is long enough for clock ticks to be accurate."""
        if not self.idle or time.monotonic() - self._at >= self.period_s / 2:
            self._close()

    def _close(self) -> None:
        at, ticks, stalled = time.monotonic(), _ticks(), _stalled()
        self.seconds += at - self._at
        idle, total = (new - old for new, old in zip(ticks, self._ticks, strict=True))
        if total > 0:
            self.idle.append(idle / total)
        if stalled is not None and self._stalled is not None:
            self.waiting.append((stalled - self._stalled) / (at - self._at))
        self._at, self._ticks, self._stalled = at, ticks, stalled


def _ticks() -> tuple[int, int]:
    """Idle and total ticks of all processors since boot."""
    user, nice, system, idle, iowait, irq, softirq, steal, *_ = map(
        int, _STAT.read_text().split("\n", 1)[0].split()[1:]
    )
    waiting = idle + iowait
    return waiting, waiting + user + nice + system + irq + softirq + steal


def _stalled() -> float | None:
    """Seconds since boot in which some process waited for a processor; None if not reported."""
    try:
        some = _PRESSURE.read_text().split("\n", 1)[0]
    except OSError:  # no such file, or psi=0 on the kernel's command line
        return None
    return int(some.rpartition("total=")[2]) / 1e6
