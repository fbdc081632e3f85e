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

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the emulator is not needed to plan
    from testbed.backends.emulation.rates import Port

IDLE_FLOOR = 0.35
WAITING_CEILING = 0.8
"""Of every second, in which some process had no processor: a bound of our own. Short waits are many
where processes are more than cores, and cost little. Nearly all the time means that processors
which idle are not ours to use, as under a quota, or that everybody wants them at once."""

LATE_SHARE = 0.05
RATE_TOLERANCE = 0.05
RATE_SHORTFALL = 0.1
RESENT_SHARE = 0.01
EXPLAINED_SHARE = 0.05
"""Of all packets. Losses explain no more, unless as many were lost: what is sent again fills
queues, too. The reference's runs sent at most 1.3 % again."""

VALID = "valid"
_NEEDLESS = "though too few were lost to explain it"


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


def explained(losses: int, ranks: int, frame: int, sent: int) -> float:
    """How many of ``sent`` packets may have been sent again because of ``losses``.

    What is lost is a frame of up to ``frame`` packets, and all ``ranks`` may miss the sums in it.
    """
    return max(frame * losses, min(frame * ranks * losses, EXPLAINED_SHARE * sent))


def is_needless(said: str) -> bool:
    """Whether a verdict says that packets were sent again without need."""
    return _NEEDLESS in said


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
            + _NEEDLESS
        )


def _dead(signs: Signs) -> Iterator[str]:
    yield from (f"{name}: {reason}" for name, reason in signs.dead.items())


_RULES: tuple[Callable[[Signs], Iterator[str]], ...] = (
    _idle, _waiting, _late, _lost, _fast, _slow, _resent, _dead,
)  # fmt: skip
