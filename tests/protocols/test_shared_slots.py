"""Slots that jobs of several protocols share: switches compared with references, and who evicts
whom."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import cycle
from random import Random

import numpy as np
import pytest
from ina_scene import ADDRESSING, ALLOCATIONS, FABRIC, MARKER, SWITCH, counted, forget
from ina_traffic import Traffic

from testbed import wire
from testbed.plan.units import Unit
from testbed.protocols.a2tp.protocol import PROTOCOL as A2TP
from testbed.protocols.atp.protocol import PROTOCOL as ATP
from testbed.protocols.atp.protocol import Atp
from testbed.protocols.esa.protocol import PROTOCOL as ESA
from testbed.protocols.events import Event
from testbed.switches.compile import PROGRAM
from testbed.switches.entries import derive
from testbed.switches.native.target import NativeSwitch
from testbed.switches.reference import ReferenceSwitch
from testbed.switches.wired import wired_bmv2

INA = 14 + 20 + 8
"""Where the INA header begins in a frame."""
MB = 1 << 20


def sharing(*protocols: Atp):
    """ATP's trees of the scene, with ``protocols`` on them in turn."""
    trees = [each for each in ALLOCATIONS if each.slots and each.tree.protocol is ATP]
    return [
        replace(each, job=0, tree=replace(each.tree, protocol=protocol))
        for each, protocol in zip(trees, cycle(protocols), strict=False)
    ]


several_sets = pytest.mark.parametrize("protocols", [(ESA,), (A2TP,), (ESA, ATP, A2TP)], ids=len)


@several_sets
def test_the_native_switch_does_what_the_references_say(protocols):
    told = sharing(*protocols)
    with NativeSwitch.offline(PROGRAM) as switch:
        derive(SWITCH, FABRIC, ADDRESSING, told).install(switch)
        events = sum((compare(switch, protocols, told, seed) for seed in range(6)), Counter())
    reached = {event for (_, event), count in events.items() if count}
    wanted = {Event.STORED, Event.ADDED, Event.COMPLETED, Event.COLLISION, Event.FLUSHED}
    assert reached >= wanted | ({Event.EVICTED} if ESA in protocols else set())


@pytest.mark.root
@pytest.mark.bmv2
@several_sets
def test_bmv2_does_what_the_references_say(protocols, tmp_path):
    told = sharing(*protocols)
    with wired_bmv2(PROGRAM, tmp_path / "log", SWITCH, FABRIC, ADDRESSING) as switch:
        derive(SWITCH, FABRIC, ADDRESSING, [*told, MARKER]).install(switch)
        assert compare(switch, protocols, told, 77)


def compare(switch, protocols, told, seed):
    """Send traffic with priorities to switch and reference; returns the events."""
    forget(switch)
    before = counted(switch)
    random, reference = Random(seed), ReferenceSwitch(SWITCH, FABRIC, told)
    for port, frame in Traffic(random, protocols, told).arrivals(250):
        changed = bytearray(frame)
        if len(frame) > INA + 1 and frame[INA] == wire.KIND_DATA:
            changed[INA + 1] |= random.randrange(8) << wire.PRIORITY_SHIFT
        sent = bytes(changed)
        assert sorted(switch.process(port, sent)) == sorted(reference.process(sent))
    assert counted(switch) == before + reference.events
    return reference.events


class OneSwitch:
    """A switch with two jobs of two workers each, whose packets name slot 3."""

    def __init__(self, switch, first, second):
        self._switch = switch
        self._told = sharing(first, second)[:2]
        derive(SWITCH, FABRIC, ADDRESSING, self._told).install(switch)
        self.workers = [each.tree.children(SWITCH) for each in self._told]

    def send(self, job, worker, sequence, priority=0, values=1):
        """Send a packet; returns the tree, sequence, bitmap, flags, first value and address of each
        that leaves."""
        tree = self._told[job].tree
        packet = np.zeros(1, wire.PACKET)
        packet["kind"], packet["flags"] = wire.KIND_DATA, priority << wire.PRIORITY_SHIFT
        packet["tree"], packet["sequence"] = self._told[job].number, sequence
        packet["slot"], packet["bitmap"] = 3, tree.bits(self.workers[job][worker])
        packet["values"] = values
        payload = packet.tobytes()
        to, source = (address(each) for each in (SWITCH, self.workers[job][worker]))
        ip = b"\x45\x00" + (28 + len(payload)).to_bytes(2, "big") + bytes(4) + b"\x40\x11\x00\x00"
        ports = wire.PORT.to_bytes(2, "big") * 2
        udp = ports + (8 + len(payload)).to_bytes(2, "big") + b"\0\0"
        frame = bytes(12) + b"\x08\x00" + ip + source + to + udp + payload
        return [self._seen(frame) for _, frame in self._switch.process(1, frame)]

    def bits(self, job, *workers):
        return sum(self._told[job].tree.bits(self.workers[job][each]) for each in workers)

    def number(self, job):
        return self._told[job].number

    def root(self, job):
        return address(self._told[job].tree.root)

    @staticmethod
    def _seen(frame):
        (packet,) = np.frombuffer(frame[INA:], wire.PACKET)
        fields = [int(packet[name]) for name in ("tree", "sequence", "bitmap", "flags")]
        return (*fields, int(packet["values"][0]), frame[30:34])


def address(node):
    return ADDRESSING.ip_number(node).to_bytes(4, "big")


@pytest.fixture
def switch():
    with NativeSwitch.offline(PROGRAM) as started:
        yield started


def test_a_higher_priority_takes_the_slot_and_the_sum_in_it_goes_to_its_own_root(switch):
    two = OneSwitch(switch, ESA, ESA)
    assert two.send(0, 0, 7, priority=2, values=10) == []
    assert two.send(0, 1, 7, priority=2, values=20) == []
    evicted = wire.FLAG_COLLISION | 2 << wire.PRIORITY_SHIFT
    expected = (two.number(0), 7, two.bits(0, 0, 1), evicted, 30, two.root(0))
    assert two.send(1, 0, 9, priority=3, values=5) == [expected]
    # The second job's sum is complete, and frees the slot.
    (whole,) = two.send(1, 1, 9, priority=3, values=6)
    assert whole[:3] == (two.number(1), 9, two.bits(1, 0, 1))
    assert whole[4:] == (11, two.root(1))
    assert two.send(0, 2, 8, priority=1) == []


@pytest.mark.parametrize("priority", [1, 2])
def test_an_equal_or_lower_priority_goes_up(switch, priority):
    two = OneSwitch(switch, ESA, ESA)
    assert two.send(0, 0, 7, priority=2) == []
    (packet,) = two.send(1, 0, 9, priority=priority, values=5)
    assert packet[:3] == (two.number(1), 9, two.bits(1, 0))
    assert packet[3] & wire.FLAG_COLLISION
    assert packet[4:] == (5, two.root(1))


@pytest.mark.parametrize("owner", [ATP, A2TP])
def test_the_slots_of_other_protocols_are_not_taken(switch, owner):
    two = OneSwitch(switch, owner, ESA)
    assert two.send(0, 0, 7) == []
    assert two.send(1, 0, 9, priority=7)[0][0] == two.number(1)
    assert two.send(1, 1, 9, priority=7)[0][0] == two.number(1)


@pytest.mark.parametrize(("other", "told"), [(ATP, 0), (A2TP, wire.FLAG_CONTENDED)])
def test_the_owner_of_a_slot_learns_that_others_want_it(switch, other, told):
    two = OneSwitch(switch, other, A2TP)
    assert two.send(1, 0, 9) == []
    assert two.send(0, 0, 7)[0][3] == wire.FLAG_COLLISION
    (whole,) = two.send(1, 1, 9)
    assert whole[3] == told, "only packets of A2TP mark a slot"


def test_priorities_follow_what_is_left_the_layer_or_the_job():
    units = [Unit(place, size * MB // 4, ready_s) for place, size, ready_s in
             ((0, 40, 1.0), (1, 40, 2.0), (2, 3, 3.0), (2, 1, 3.0))]  # fmt: skip
    assert ESA.priorities({}, units, 1) == (1, 1, 4, 6)
    assert ESA.priorities({}, [replace(each, elements=each.elements // 512) for each in units],
                          1 / 512) == (1, 1, 4, 6)  # fmt: skip
    assert ESA.priorities({"priority": "layer"}, units, 1) == (1, 3, 5, 5)
    assert ESA.priorities({"priority": 6}, units, 1) == (6,) * 4
    assert ATP.priorities({}, units, 1) == (0,) * 4
