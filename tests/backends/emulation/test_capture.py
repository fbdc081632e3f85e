"""Captures of a link, written while a network runs and read as text."""

from __future__ import annotations

import subprocess

import pytest

from testbed.backends.emulation.capture import Capture
from testbed.backends.emulation.network import EmulationError, Network
from testbed.switches.decode import lines
from testbed.topology.builders import leaf_spine

FABRIC = leaf_spine(1, 1, 2, 1e9, 1e9, 10**6)


@pytest.mark.root
def test_what_passes_on_a_link_is_captured_and_read(tmp_path):
    path = tmp_path / "link.pcap"
    with Network(FABRIC, 1.0, {}) as network:
        to = network.addressing.ip("h1")
        with Capture(network, "t0-h0", path):
            subprocess.run(
                [*network.inside("h0"), "ping", "-c2", "-i0.2", to], check=True, capture_output=True
            )
    read = [line for line in lines(path) if "ICMP" in line]
    assert len(read) == 4
    assert to in read[0]


@pytest.mark.root
def test_a_link_that_is_none_is_named(tmp_path):
    wanted = "found no link 'h0-t9' to capture in .*, wanted two neighbours such as h0-t0"
    with (
        Network(FABRIC, 1.0, {}) as network,
        pytest.raises(EmulationError, match=wanted),
        Capture(network, "h0-t9", tmp_path / "x.pcap"),
    ):
        pass
