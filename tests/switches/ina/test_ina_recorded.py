"""The native switch handles hostile traffic as BMv2 did in the recording (``record_ina.py``)."""

from __future__ import annotations

import numpy as np
import pytest
from ina_scene import ENTRIES, counted
from record_ina import PACKETS, RECORDED, SETS, arrivals, digest, events, left

from testbed.switches.compile import PROGRAM
from testbed.switches.native.target import NativeSwitch


@pytest.mark.parametrize("name", SETS)
def test_native_equals_recorded_bmv2(name):
    with np.load(RECORDED / f"{name}.npz") as recorded:
        assert str(recorded["by"]).startswith("simple_switch 1.")
        assert str(recorded["arrived"]) == digest(arrivals(name)), (
            "the traffic has changed since: run record_ina.py"
        )
        expected, counts = recorded["left"], recorded["events"]
    assert len(expected) > PACKETS // 4, "little of it left the switch"
    with NativeSwitch.offline(PROGRAM) as switch:
        ENTRIES.install(switch)
        found = left(name, switch.process)
        for ours, theirs in zip(found, expected, strict=False):
            assert ours == theirs, (
                f"packet {theirs['step']}: found {ours['head'].tobytes().hex()} at {ours['port']},"
                f" BMv2 made {theirs['head'].tobytes().hex()} at {theirs['port']};"
                " run record_ina.py if the P4 program has changed"
            )
        assert len(found) == len(expected)
        counted_now, known = events(counted(switch)), counts.shape[1]
        np.testing.assert_array_equal(counted_now[:, :known], counts)
        assert not counted_now[:, known:].any(), "an event that there was not when it was recorded"
