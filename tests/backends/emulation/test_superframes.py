"""How many packets travel as one in the emulator: no root."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from tiny import experiment

from testbed.backends.emulation import backend
from testbed.backends.emulation.superframes import superframe
from testbed.placement.deployments import Deployments
from testbed.topology.addressing import Addressing
from testbed.topology.builders import leaf_spine


@pytest.mark.parametrize(
    ("dilation", "packets"), [(None, 6), (1, 6), (800, 6), (1000, 4), (1600, 3), (6400, 1)]
)
def test_a_superframe_is_short_on_a_slow_link(dilation, packets):
    assert superframe(leaf_spine(2, 2, 2, 10e9, 20e9, 256_000), dilation) == packets


@pytest.mark.parametrize("packets", [1, 3, 6])
def test_hosts_send_no_more_at_once_than_the_links_carry_as_one(packets, tmp_path, monkeypatch):
    """If links lose packets singly, a host's own link would lose all that were sent at once."""

    tasks = []

    def emulate(fabric, targets, allocations, make_tasks, conditions, timeout):
        network = SimpleNamespace(superframe=packets, addressing=Addressing(fabric))
        tasks.extend(make_tasks(network))

    monkeypatch.setattr(backend, "emulate", emulate)
    asked = experiment(tmp_path, jobs__0__options={"window": 48})
    backend.observe(Deployments().of(asked), tmp_path / "logs")
    assert {each.burst for each in tasks} == {packets}
