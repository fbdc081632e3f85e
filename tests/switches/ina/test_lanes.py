"""Addition in every lane, compared with numpy, on both targets and for every build."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from ina_scene import ADDRESSING, ALLOCATIONS, ENTRIES, FABRIC, SWITCH, forget
from ina_traffic import Traffic, data_packet

from testbed import wire
from testbed.compiler import cache
from testbed.protocols.atp.protocol import PROTOCOL as ATP
from testbed.protocols.switchml.protocol import PROTOCOL as SWITCHML
from testbed.switches.compile import COMPILER, PROGRAMS, compile_program, sources_digest
from testbed.switches.frames import Packet, parse
from testbed.switches.native.target import NativeSwitch
from testbed.switches.reference import ReferenceSwitch
from testbed.switches.wired import wired_bmv2

INT32 = np.iinfo(np.int32)
LIMITS = (INT32.min, INT32.min + 1, -(2**30), -2, -1, 0, 1, 2, 2**30, INT32.max - 1, INT32.max)
WATCHED, UNWATCHED = (
    next(
        each for each in ALLOCATIONS if each.tree.protocol is style and len(each.tree.rank_of) == 3
    )
    for style in (ATP, SWITCHML)
)
MEMBERS = ("h0", "h1", "h2")
fragments = count()


@dataclass(frozen=True)
class Build:
    lanes: int
    saturate: bool = False

    @property
    def defines(self):
        return [f"VALUES={self.lanes}", *(["SATURATE"] if self.saturate else [])]

    def __str__(self):
        return f"{self.lanes}{' saturating' if self.saturate else ''}"


COMMITTED, SATURATING = [Build(size) for size in PROGRAMS], Build(wire.VALUES, saturate=True)


def targets():
    """The targets and builds. Committed programs are tested everywhere, others only if p4c can
    compile them."""
    compiled = [
        pytest.mark.bmv2,
        pytest.mark.skipif(shutil.which(COMPILER) is None, reason=f"{COMPILER} is not installed"),
    ]
    for build in COMMITTED:
        yield pytest.param(("native", build))
    for build in (Build(32), SATURATING):
        yield pytest.param(("native", build), marks=compiled)
    for build in (*COMMITTED[1:], SATURATING):
        yield pytest.param(("bmv2", build), marks=[pytest.mark.root, *compiled])


def compiled(build):
    """The program of a build, compiled once for these sources, because p4c is slow."""
    if build in COMMITTED:
        return PROGRAMS[build.lanes]
    made = cache() / f"ina-{'-'.join(build.defines)}-{sources_digest()}.json"
    if not made.exists():
        program = compile_program(defines=build.defines)
        made.parent.mkdir(parents=True, exist_ok=True)
        made.write_bytes(program)
    return made


@dataclass(frozen=True)
class Target:
    build: Build
    program: Path
    switch: Any


@pytest.fixture(scope="module", params=targets(), ids=lambda pair: f"{pair[0]} {pair[1]}")
def target(request, tmp_path_factory):
    name, build = request.param
    program = compiled(build)
    running = (
        NativeSwitch.offline(program)
        if name == "native"
        else wired_bmv2(
            program, tmp_path_factory.mktemp("bmv2") / "log", SWITCH, FABRIC, ADDRESSING
        )
    )
    with running as switch:
        ENTRIES.install(switch)
        yield Target(build, program, switch)


def add(switch, allocation, contributions):
    """The switch's sum of ``contributions`` (members × lanes), and its flags."""
    sequence = next(fragments)
    for host, values in zip(MEMBERS, contributions, strict=True):
        packet = data_packet(host, allocation, sequence, values)
        left = switch.process(ADDRESSING.port(SWITCH, host), bytes(packet))
        assert bool(left) == (host == MEMBERS[-1])
    sums = [parse(frame, contributions.shape[1]) for _, frame in left]
    assert all((each.values == sums[0].values).all() for each in sums)
    if allocation is WATCHED:  # the root's result frees the slot
        packet.ina["kind"] = wire.KIND_ACK
        switch.process(4, bytes(Packet(packet.link, packet.udp, ina=packet.ina)))
    return sums[0].values, int(sums[0].ina["flags"][0])


def check(target, contributions):
    build = target.build
    expected, overflowed = contributions[0].astype(np.int64), False
    for values in contributions[1:]:
        expected = expected + values
        overflowed |= ((expected < INT32.min) | (expected > INT32.max)).any()
        wrapped = expected.astype(np.int32)
        expected = expected.clip(INT32.min, INT32.max) if build.saturate else wrapped
        expected = expected.astype(np.int64)
    for allocation, flags in ((WATCHED, wire.FLAG_OVERFLOW if overflowed else 0), (UNWATCHED, 0)):
        found, flagged = add(target.switch, allocation, contributions)
        np.testing.assert_array_equal(found, expected)
        assert flagged == flags


def three(first, second, lanes):
    return np.array([first, second, np.zeros(lanes)], np.int32)


def test_every_pair_of_limits_in_every_lane(target):
    """Neighbouring lanes have different limits; carries and borrows must not cross lanes."""
    lanes = target.build.lanes
    pairs = np.array([(x, y) for x in LIMITS for y in LIMITS])
    for shift in range(len(pairs)):
        x, y = np.resize(np.roll(pairs, shift, axis=0), (lanes, 2)).T
        check(target, three(x, y, lanes))


@pytest.mark.parametrize(("x", "y"), [(INT32.max, 1), (INT32.min, -1), (INT32.max, 0)])
def test_overflow_is_flagged_whichever_lane_it_is_in(target, x, y):
    lanes = target.build.lanes
    for lane in range(lanes):
        alone = np.arange(lanes) == lane
        check(target, three(np.where(alone, x, -1), np.where(alone, y, 1), lanes))


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_random_values(target, data):
    lanes = target.build.lanes
    any_value = st.sampled_from(LIMITS) | st.integers(INT32.min, INT32.max)
    check(target, data.draw(arrays(np.int32, (3, lanes), elements=any_value, fill=any_value)))


def test_an_overflow_that_comes_back_stays_flagged(target):
    lanes = target.build.lanes
    there_and_back = np.array([INT32.max, 1, -1], np.int32)
    check(target, np.repeat(there_and_back, lanes).reshape(3, lanes))


@pytest.mark.parametrize("seed", range(4))
def test_traffic_of_this_width(target, seed):
    switch, build = target.switch, target.build
    forget(switch, target.program)
    reference = ReferenceSwitch(SWITCH, FABRIC, ALLOCATIONS, build.lanes, build.saturate)
    for port, frame in Traffic(Random(seed), lanes=build.lanes).arrivals(200):
        assert sorted(switch.process(port, frame)) == sorted(reference.process(frame))
