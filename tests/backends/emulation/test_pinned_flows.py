"""Flows that are pinned to a way around the shortest."""

from __future__ import annotations

import socket
import time

import pytest
from namespaces import open_socket

from testbed.backends.emulation.network import EmulationError, Network
from testbed.topology.builders import graph

# GRID's worked example (Fig. 1): three switches in a triangle.
FABRIC = graph(
    {"S1": ["W1", "W2", "W3", "W4"], "S2": ["W5", "W6"], "S3": ["W7", "W8", "PS"]},
    [("S1", "S2", 3e7), ("S1", "S3", 3e7), ("S2", "S3", 3e7)],
    9e7,
    256_000,
)


def used(network: Network, source: str, to: str) -> set[str]:
    """The interfaces between switches that packets of one host to another leave by."""
    before = network.statistics().sent_bytes
    with open_socket(network, source, socket.SOCK_DGRAM) as sender:
        for port in range(5000, 5020):
            sender.sendto(bytes(1000), (network.addressing.ip(to), port))
    time.sleep(0.2)
    after = network.statistics().sent_bytes
    between = [
        f"{one}-{other}" for one in FABRIC.switches for other in FABRIC.switches if one != other
    ]
    return {name for name in between if after[name] - before[name] > 10_000}


@pytest.mark.root
def test_a_pinned_flow_goes_round_and_no_other_does():
    pins = {("W4", "PS"): "S2", ("W6", "PS"): "S1"}
    with Network(FABRIC, 1, {}, pins=pins) as network:
        assert used(network, "W4", "PS") == {"S1-S2", "S2-S3"}
        assert used(network, "W6", "PS") == {"S2-S1", "S1-S3"}
        for source, to in [("W3", "PS"), ("W4", "W7")]:
            assert used(network, source, to) == {"S1-S3"}
        assert used(network, "PS", "W4") == {"S3-S1"}


def test_a_switch_that_runs_the_p4_program_cannot_tell_flows_apart():
    with pytest.raises(EmulationError, match="from W4 to PS cannot be pinned: S1 runs the P4"):
        Network(FABRIC, 1, {"S1": None}, pins={("W4", "PS"): "S2"})


def test_a_pin_that_leads_nowhere_is_refused():
    with pytest.raises(EmulationError, match="via X, which is not a switch next to S1"):
        Network(FABRIC, 1, {}, pins={("W4", "PS"): "X"})
