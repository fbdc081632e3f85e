"""Captures of a link, written while a network runs and read as text."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from pathlib import Path

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


def resume_when_signalled(pid):
    """Continue a stopped process as soon as a signal waits for it."""
    while "ShdPnd:\t0000000000000000" in Path(f"/proc/{pid}/status").read_text():
        time.sleep(0.001)
    os.kill(pid, signal.SIGCONT)


@pytest.mark.root
def test_packets_that_tcpdump_has_not_read_at_the_end_are_captured(tmp_path):
    path = tmp_path / "link.pcap"
    with Network(FABRIC, 1.0, {}) as network:
        to = network.addressing.ip("h1")
        with Capture(network, "t0-h0", path) as capture:
            tcpdump = capture._process.pid
            os.kill(tcpdump, signal.SIGSTOP)
            subprocess.run(
                [*network.inside("h0"), "ping", "-c2", "-i0.2", to], check=True, capture_output=True
            )
            threading.Thread(target=resume_when_signalled, args=[tcpdump]).start()
    assert len([line for line in lines(path) if "ICMP" in line]) == 4


@pytest.mark.root
def test_a_link_that_is_none_is_named(tmp_path):
    wanted = "found no link 'h0-t9' in .*, wanted two neighbours such as h0-t0"
    with (
        Network(FABRIC, 1.0, {}) as network,
        pytest.raises(EmulationError, match=wanted),
        Capture(network, "h0-t9", tmp_path / "x.pcap"),
    ):
        pass
