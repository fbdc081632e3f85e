"""Pairs of index and value, merged in every entry of a slot, on both targets, in every width."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from ina_scene import ADDRESSING, ALLOCATIONS, FABRIC, SWITCH
from ina_traffic import data_packet

from testbed import wire
from testbed.protocols.flare.protocol import PROTOCOL
from testbed.protocols.flare.reference import NOTHING, merge
from testbed.protocols.switchml.protocol import PROTOCOL as SWITCHML
from testbed.switches.compile import PROGRAMS
from testbed.switches.entries import derive
from testbed.switches.frames import parse
from testbed.switches.native.target import NativeSwitch
from testbed.switches.wired import wired_bmv2

MEMBERS = ("h0", "h1", "h2")
INDICES = (0, 1, 2, NOTHING - 1, NOTHING, NOTHING)
VALUES = (0, 1, -1, 2**31 - 1, -(2**31), 2**30)


def drawn(random, entries):
    """One packet's pairs. There are few indices, so that many entries agree; values are at the
    limits."""
    pairs = [(random.choice(INDICES), random.choice(VALUES)) for _ in range(entries)]
    return np.array(pairs, np.int64).astype(np.int32).ravel()


def merged(packets):
    """For each entry, the lowest index, and the sum of the values that have it."""
    found = []
    for entry in zip(*(each.reshape(-1, 2).tolist() for each in packets), strict=True):
        sums = defaultdict(int)
        for index, value in entry:
            sums[index] += value
        found += [min(sums), sums[min(sums)]]
    return np.array(found, np.int64).astype(np.int32)


def test_the_model_merges_entry_by_entry():
    random = Random(1)
    for _ in range(20):
        packets = [drawn(random, 32) for _ in range(3)]
        found = merge(merge(packets[0], packets[1]), packets[2])
        np.testing.assert_array_equal(found, merged(packets))


@pytest.fixture(
    params=[
        *(("native", lanes) for lanes in PROGRAMS),
        pytest.param(("bmv2", wire.SIZES[0]), marks=[pytest.mark.root, pytest.mark.bmv2]),
    ],
    ids=str,
)
def target(request, tmp_path):
    name, lanes = request.param
    running = (
        NativeSwitch.offline(PROGRAMS[lanes])
        if name == "native"
        else wired_bmv2(PROGRAMS[lanes], tmp_path / "log", SWITCH, FABRIC, ADDRESSING)
    )
    with running as switch:
        yield switch, lanes


def test_the_switch_merges_entry_by_entry(target):
    switch, lanes = target
    (theirs, *_) = (
        each
        for each in ALLOCATIONS
        if each.tree.protocol is SWITCHML and set(each.tree.rank_of) == set(MEMBERS)
    )
    told = replace(theirs, tree=replace(theirs.tree, protocol=PROTOCOL))
    derive(SWITCH, FABRIC, ADDRESSING, [told]).install(switch)
    random = Random(2)
    for sequence in range(20):
        packets = [drawn(random, lanes // 2) for _ in MEMBERS]
        for host, values in zip(MEMBERS, packets, strict=True):
            packet = data_packet(host, told, sequence, values)
            left = switch.process(ADDRESSING.port(SWITCH, host), bytes(packet))
            assert bool(left) == (host == MEMBERS[-1])
        for _, frame in left:
            np.testing.assert_array_equal(parse(frame, lanes).values, merged(packets))
