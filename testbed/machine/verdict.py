"""The verdict: whether the machine was fast enough for the run. It is sampled during the run, and
judged afterwards.

The rule for the processor follows Mininet-HiFi (Handigol et al., Reproducible Network Experiments
Using Container-Based Emulation, CoNEXT 2012), whose published runs had at least 35 % idle time in
every second. Idle time does not show processes that waited while another processor was idle, nor a
container's quota; pressure stall information (Linux Documentation/accounting/psi.rst) does. The
same paper checks that links keep their rates; here, too, a run is invalid if a link did not. The
other rules are ours. They concern packets that were lost where no link was full, or retransmitted
without need, and processes that were woken so late that an iteration is off by more than
``LATE_SHARE``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the emulator is not needed to plan
    from testbed.backends.emulation.rates import Port

IDLE_FLOOR = 0.35
WAITING_CEILING = 0.8
"""The largest share of a second in which some process may wait for a processor. It is our own
bound. With more processes than cores, short waits are frequent and cost little. If processes wait
nearly all the time, idle processors are not available, as under a quota, or all processes need one
at once."""

LATE_SHARE = 0.05
RATE_TOLERANCE = 0.05
RATE_SHORTFALL = 0.1
RESENT_SHARE = 0.01
EXPLAINED_SHARE = 0.05
"""Losses explain retransmissions of at most this share of all packets, unless more packets than
that were lost: retransmissions fill queues, too. The reference's runs retransmitted up to
1.3 %."""

VALID = "valid"
_NEEDLESS = "though too few were lost to explain it"


@dataclass(frozen=True)
class Symptoms:
    """What a run showed about the machine on which it took place.

    Attributes:
        idle, waiting: shares of each second, as recorded by the sampler.
        late_s: the longest delay with which a process was woken.
        iteration_s: the mean iteration, on the same clock.
        lost: packets lost other than in a full link's queue, by place.
        ports: how links used their rates, by interface.
        resent, sent: packets that endpoints retransmitted, and all packets that hosts sent.
        excused: how many retransmissions the losses explain that belong to the experiment.
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
    """How many of ``sent`` packets may have been retransmitted because of ``losses``.

    A loss is a frame of up to ``frame`` packets, and all ``ranks`` may miss the sums in it.
    """
    return max(frame * losses, min(frame * ranks * losses, EXPLAINED_SHARE * sent))


def is_needless(said: str) -> bool:
    """Whether a verdict says that packets were retransmitted without need."""
    return _NEEDLESS in said


def verdict(symptoms: Symptoms) -> str:
    """``valid``, or every reason why the row must not be used for comparison."""
    return "; ".join(reason for rule in _RULES for reason in rule(symptoms)) or VALID


def _idle(symptoms: Symptoms) -> Iterator[str]:
    if symptoms.idle and min(symptoms.idle) < IDLE_FLOOR:
        short = sum(share < IDLE_FLOOR for share in symptoms.idle)
        yield (
            f"processor idle only {min(symptoms.idle):.0%} in its busiest second "
            f"({short} of {len(symptoms.idle)} seconds under {IDLE_FLOOR:.0%})"
        )


def _waiting(symptoms: Symptoms) -> Iterator[str]:
    if symptoms.waiting and max(symptoms.waiting) > WAITING_CEILING:
        long = sum(share > WAITING_CEILING for share in symptoms.waiting)
        yield (
            f"processes waited for a processor {max(symptoms.waiting):.0%} of the worst second "
            f"({long} of {len(symptoms.waiting)} seconds over {WAITING_CEILING:.0%})"
        )


def _late(symptoms: Symptoms) -> Iterator[str]:
    if symptoms.iteration_s > 0 and symptoms.late_s > LATE_SHARE * symptoms.iteration_s:
        yield (
            f"a process was woken {symptoms.late_s * 1e3:.0f} ms late, "
            f"{symptoms.late_s / symptoms.iteration_s:.0%} of an iteration"
        )


def _lost(symptoms: Symptoms) -> Iterator[str]:
    yield from (
        f"{count} packets lost in {place}" for place, count in symptoms.lost.items() if count
    )


def _fast(symptoms: Symptoms) -> Iterator[str]:
    fast = {
        name: port.most for name, port in symptoms.ports.items() if port.most > 1 + RATE_TOLERANCE
    }
    if fast:
        name = max(fast, key=fast.__getitem__)
        yield f"{_links(fast)} faster than configured, {name} at {fast[name]:.0%} of its rate"


def _slow(symptoms: Symptoms) -> Iterator[str]:
    slow = {
        name: port.share
        for name, port in symptoms.ports.items()
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


def _resent(symptoms: Symptoms) -> Iterator[str]:
    needless = symptoms.resent - symptoms.excused
    if symptoms.sent and needless > RESENT_SHARE * symptoms.sent:
        yield (
            f"{symptoms.resent} packets retransmitted, "
            f"{symptoms.resent / symptoms.sent:.0%} of all, " + _NEEDLESS
        )


def _dead(symptoms: Symptoms) -> Iterator[str]:
    yield from (f"{name}: {reason}" for name, reason in symptoms.dead.items())


_RULES: tuple[Callable[[Symptoms], Iterator[str]], ...] = (
    _idle, _waiting, _late, _lost, _fast, _slow, _resent, _dead,
)  # fmt: skip
