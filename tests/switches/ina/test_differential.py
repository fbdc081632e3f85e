"""Native switch and BMv2 compared with the protocol's reference: all packets and all events."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ina_scene import ADDRESSING, ALLOCATIONS, ENTRIES, FABRIC, PROTOCOLS, SWITCH, counted, forget
from ina_traffic import LONGEST, Traffic

from testbed.protocols.atp.protocol import PROTOCOL as ATP
from testbed.protocols.events import Event
from testbed.protocols.switchml.protocol import PROTOCOL as SWITCHML
from testbed.switches.compile import PROGRAM
from testbed.switches.native.target import NativeSwitch
from testbed.switches.reference import ReferenceSwitch
from testbed.switches.wired import wired_bmv2

STYLES = [(style,) for style in PROTOCOLS] + [PROTOCOLS]
NAMES = [*(style.name for style in PROTOCOLS), "together"]


@pytest.fixture(scope="module")
def switch():
    with NativeSwitch.offline(PROGRAM) as started:
        ENTRIES.install(started)
        yield started


@pytest.fixture(scope="module")
def sanitized():
    with NativeSwitch.offline(PROGRAM, sanitize=True) as started:
        ENTRIES.install(started)
        yield started


def compare(switch, styles, random, count):
    """Compare switch and reference; returns the events, which show what the traffic has tested."""
    forget(switch)
    before = counted(switch)
    reference = ReferenceSwitch(SWITCH, FABRIC, ALLOCATIONS)
    for n, (port, frame) in enumerate(Traffic(random, styles).arrivals(count)):
        found = sorted(switch.process(port, frame))
        expected = sorted(reference.process(frame))
        assert found == expected, difference(n, port, frame, found, expected)
    assert counted(switch) == before + reference.events
    return reference.events


def difference(n, port, frame, found, expected):
    def told(packets):
        return [(port, packet[:90].hex(" ")) for port, packet in packets]

    came = f"packet {n} at port {port}: {frame[:90].hex(' ')}"
    return f"{came}\nfound    {told(found)}\nexpected {told(expected)}"


@pytest.mark.parametrize("styles", STYLES, ids=NAMES)
def test_long_sequences(switch, styles):
    events = sum((compare(switch, styles, Random(seed), 250) for seed in range(8)), Counter())
    reached = {event for (_, event), count in events.items() if count}
    wanted = {Event.STORED, Event.ADDED, Event.COMPLETED, Event.DUPLICATE, Event.REFUSED}
    if ATP in styles:
        wanted |= {Event.COLLISION, Event.FLUSHED, Event.PASSED, Event.FREED}
    assert reached >= wanted | {Event.RETURNED}, "the traffic does not try everything"


def test_a_frame_that_is_lengthened_again_stays_a_frame():
    """Hypothesis found one without room: the padding had a negative length."""
    traffic = Traffic(Random(1), tuple(PROTOCOLS))
    frames = [
        traffic._mangled(1, bytes(LONGEST - spare))[1] for spare in range(60) for _ in "12345"
    ]
    assert max(map(len, frames)) == LONGEST


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(random=st.randoms(use_true_random=False), count=st.integers(1, 30))
@pytest.mark.parametrize("styles", STYLES, ids=NAMES)
def test_short_sequences_that_shrink(sanitized, styles, random, count):
    compare(sanitized, styles, random, count)


@pytest.fixture(scope="module")
def bmv2(tmp_path_factory):
    with wired_bmv2(
        PROGRAM, tmp_path_factory.mktemp("bmv2") / "log", SWITCH, FABRIC, ADDRESSING
    ) as started:
        ENTRIES.install(started)
        yield started


@pytest.mark.root
@pytest.mark.bmv2
@pytest.mark.parametrize("styles", STYLES, ids=NAMES)
def test_bmv2(bmv2, styles):
    compare(bmv2, styles, Random(77), 300)


def test_a_difference_would_be_seen(switch):
    """If the switch loses memory, it differs from the reference."""
    with pytest.raises(AssertionError, match="found"):
        compare(Forgetful(switch), (SWITCHML,), Random(1), 250)


class Forgetful:
    """A switch that loses an addition sometimes."""

    def __init__(self, switch):
        self._switch, self._packets = switch, 0

    def __getattr__(self, name):
        return getattr(self._switch, name)

    def process(self, port, frame):
        self._packets += 1
        if self._packets % 10 == 0:
            self.reset_register("InaIngress.aggregation.lanes.memory_c")
        return self._switch.process(port, frame)
