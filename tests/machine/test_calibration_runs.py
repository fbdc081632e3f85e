"""A short real calibration has plausible results."""

from __future__ import annotations

import pytest

from testbed.backends.emulation.network import EmulationError
from testbed.deployment.deploy import deploy
from testbed.machine import calibration
from testbed.machine import calibration_runs as calibrating
from testbed.machine.capacity import demand
from testbed.placement.fabric import build_fabric
from testbed.switches import bmv2

pytestmark = [pytest.mark.root, pytest.mark.alone]


def test_what_is_measured_explains_what_was_run(monkeypatch):
    monkeypatch.setattr(calibrating, "_ATTEMPTS", 1)
    monkeypatch.setattr(calibrating, "ITERATION_S", 0.5)
    monkeypatch.setattr(bmv2, "installed", lambda: False)
    said = []
    found = calibrating.calibrate(said.append, force=True)
    assert len(said) == 2
    assert set(found.costs) == {"tcp", "native"}
    # Costs are from a tenth of a nanosecond to a hundred microseconds per byte.
    assert all(0.1 < cost < 1e5 for each in found.costs.values() for cost in (each.link, each.rank))
    assert found.costs["native"].switch > 0 < found.late_s
    assert calibration.store(found).exists()
    assert calibration.load() == found
    # By these costs, the calibration's own run neither left the machine idle nor overloaded it.
    wanted = calibrating._experiment("native", calibrating._START_RATE["native"])
    fabric = build_fabric(wanted)
    assert 0.01 < demand(deploy(wanted, fabric), found).strain(1) < 10


def test_a_busy_machine_is_not_measured_unasked(monkeypatch):
    monkeypatch.setattr(calibrating, "_busy_before", lambda: 0.6)
    with pytest.raises(EmulationError, match="60% busy"):
        calibrating.calibrate(print)
