"""The switches' counters: one event per packet of a job, with the numbers of ``p4/headers.p4``."""

from __future__ import annotations

from collections import Counter

from testbed.protocols.events import Event
from testbed.switches.control import Control

COUNTER = "InaIngress.events"
_PER_JOB = 16


CONTRIBUTIONS = (
    Event.STORED, Event.ADDED, Event.COMPLETED, Event.DUPLICATE, Event.COLLISION, Event.FLUSHED,
    Event.PASSED, Event.REFUSED, Event.EVICTED,
)  # fmt: skip
"""Events of packets on their way up."""


def read(switch: Control, job: int) -> Counter[Event]:
    """The packets of ``job`` that ``switch`` has seen, by event. ControlError if refused."""
    return Counter(
        {event: switch.read_counter(COUNTER, job * _PER_JOB + event)[0] for event in Event}
    )
