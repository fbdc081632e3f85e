"""Ranks take messages while they wait, and that changes nothing but the time of a run."""

from __future__ import annotations

import pytest

from testbed.backends.packet import backend
from testbed.backends.packet.loop import Loop
from testbed.studies.torture.cases import world
from testbed.systems import registry


@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("system", registry)
def test_a_rank_that_takes_messages_sends_the_same_packets(system, number, tmp_path, monkeypatch):
    _, deployment = world(system, number)
    found = []
    for takes in (True, False):
        if not takes:
            monkeypatch.setattr(Loop, "_hand", lambda *_: False)
        measured = backend.run(deployment, tmp_path)
        times = [each.iterations for each in measured.jobs]
        found.append((measured.digests, measured.carried, measured.seconds, times))
    assert found[0][0] is not None
    assert found[0] == found[1]
