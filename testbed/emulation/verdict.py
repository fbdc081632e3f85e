"""Could the machine carry the run? Sampled while it runs, said in words afterwards.

The rule for the processor follows Mininet-HiFi (Handigol et al., Reproducible Network
Experiments Using Container-Based Emulation, CoNEXT 2012), whose published runs had at least
35 % idle time in every second. It cannot see who waited while another processor was idle, nor a
container's quota; pressure stall information (Linux Documentation/accounting/psi.rst) can. The
same paper checks that links carry what their rates say; here as there, a run in which one did not
is not valid. The other rules are ours: packets lost where no link was full, sent again without
need, or processes woken so late that an iteration is off by more than ``LATE_SHARE``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from testbed.emulation.rates import Port

IDLE_FLOOR = 0.35
WAITING_CEILING = 0.8
"""Of every second, in which some process had no processor: a bound of our own. Short waits are many
where processes are more than cores, and cost little. Nearly all the time means that processors
which idle are not ours to use, as under a quota, or that everybody wants them at once."""

LATE_SHARE = 0.05
RATE_TOLERANCE = 0.05
RATE_SHORTFALL = 0.1
RESENT_SHARE = 0.01
VALID = "valid"

_STAT, _PRESSURE = Path("/proc/stat"), Path("/proc/pressure/cpu")


@dataclass
class Sampler:
    """Call :meth:`sample` often; it keeps two shares of every second that passes.

    ``idle``: of the processors' time. On a virtual machine, time that the host gave to others
    (steal) is not idle time. ``waiting``: of the second, in which at least one process that could
    run had no processor; empty where the kernel does not tell. ``seconds`` is how long they cover.
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
        """Close the last stretch, if it is long enough for clock ticks to mean much."""
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
    """Seconds since boot in which some process waited for a processor; None if not told."""
    try:
        some = _PRESSURE.read_text().split("\n", 1)[0]
    except OSError:  # no such file, or psi=0 on the kernel's command line
        return None
    return int(some.rpartition("total=")[2]) / 1e6


@dataclass(frozen=True)
class Signs:
    """What a run showed of the machine that carried it.

    Attributes:
        idle, waiting: shares of each second, as the sampler has them.
        late_s: the worst delay with which a process was woken.
        iteration_s: a mean iteration, on the same clock.
        lost: packets lost other than in a full link's queue, by place.
        ports: what links made of their rates, by interface.
        resent, sent: packets that endpoints sent again, and all that hosts sent.
        excused: how many of those sent again losses explain that belong to the experiment.
        dead: switches that ended, with the reason.
    """

    idle: Sequence[float] = ()
    waiting: Sequence[float] = ()
    late_s: float = 0.0
    iteration_s: float = 0.0
    lost: Mapping[str, int] = field(default_factory=dict)
    ports: Mapping[str, Port] = field(default_factory=dict)
    resent: int = 0
    sent: int = 0
    excused: float = 0.0
    dead: Mapping[str, str] = field(default_factory=dict)


def verdict(signs: Signs) -> str:
    """``valid``, or every reason why the row must not be compared."""
    return "; ".join(reason for rule in _RULES for reason in rule(signs)) or VALID


def _idle(signs: Signs) -> Iterator[str]:
    if signs.idle and min(signs.idle) < IDLE_FLOOR:
        short = sum(share < IDLE_FLOOR for share in signs.idle)
        yield (
            f"processor idle only {min(signs.idle):.0%} in its busiest second "
            f"({short} of {len(signs.idle)} seconds under {IDLE_FLOOR:.0%})"
        )


def _waiting(signs: Signs) -> Iterator[str]:
    if signs.waiting and max(signs.waiting) > WAITING_CEILING:
        long = sum(share > WAITING_CEILING for share in signs.waiting)
        yield (
            f"processes waited for a processor {max(signs.waiting):.0%} of the worst second "
            f"({long} of {len(signs.waiting)} seconds over {WAITING_CEILING:.0%})"
        )


def _late(signs: Signs) -> Iterator[str]:
    if signs.iteration_s > 0 and signs.late_s > LATE_SHARE * signs.iteration_s:
        yield (
            f"a process was woken {signs.late_s * 1e3:.0f} ms late, "
            f"{signs.late_s / signs.iteration_s:.0%} of an iteration"
        )


def _lost(signs: Signs) -> Iterator[str]:
    yield from (f"{count} packets lost in {place}" for place, count in signs.lost.items() if count)


def _fast(signs: Signs) -> Iterator[str]:
    fast = {name: port.most for name, port in signs.ports.items() if port.most > 1 + RATE_TOLERANCE}
    if fast:
        name = max(fast, key=fast.__getitem__)
        yield f"{_links(fast)} faster than configured, {name} at {fast[name]:.0%} of its rate"


def _slow(signs: Signs) -> Iterator[str]:
    slow = {
        name: port.share
        for name, port in signs.ports.items()
        if port.share is not None and port.share < 1 - RATE_SHORTFALL
    }
    if slow:
        name = min(slow, key=slow.__getitem__)
        yield (
            f"{_links(slow)} slower than configured while packets waited, "
            f"{name} at {slow[name]:.0%} of its rate"
        )


def _links(ports: Mapping[str, float]) -> str:
    return "1 link end" if len(ports) == 1 else f"{len(ports)} link ends"


def _resent(signs: Signs) -> Iterator[str]:
    needless = signs.resent - signs.excused
    if signs.sent and needless > RESENT_SHARE * signs.sent:
        yield (
            f"{signs.resent} packets sent again, {signs.resent / signs.sent:.0%} of all, "
            "though too few were lost to explain it"
        )


def _dead(signs: Signs) -> Iterator[str]:
    yield from (f"{name}: {reason}" for name, reason in signs.dead.items())


_RULES: tuple[Callable[[Signs], Iterator[str]], ...] = (
    _idle, _waiting, _late, _lost, _fast, _slow, _resent, _dead,
)  # fmt: skip
