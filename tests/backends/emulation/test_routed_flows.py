"""Flows on a path that is not the shortest."""

from __future__ import annotations

import socket

import pytest
from namespaces import open_socket
from patience import awaited

from testbed.backends.emulation import targets
from testbed.backends.emulation.network import Network
from testbed.topology.builders import graph

# GRID's worked example (Fig. 1): three switches in a triangle.
FABRIC = graph(
    {"S1": ["W1", "W2", "W3", "W4"], "S2": ["W5", "W6"], "S3": ["W7", "W8", "PS"]},
    [("S1", "S2", 3e7), ("S1", "S3", 3e7), ("S2", "S3", 3e7)],
    9e7,
    256_000,
)


ROUTES = {
    ("W4", "PS"): ("W4", "S1", "S2", "S3", "PS"),
    ("W6", "PS"): ("W6", "S2", "S1", "S3", "PS"),
}


def used(network: Network, source: str, to: str) -> set[str]:
    """The interfaces between switches that forward packets from one host to another."""
    before = network.statistics().sent_bytes
    with open_socket(network, source, socket.SOCK_DGRAM) as sender:
        for port in range(5000, 5020):
            sender.sendto(bytes(1000), (network.addressing.ip(to), port))
    (last,) = (name for name in before if name.endswith(f"-{to}"))
    awaited(lambda: network.statistics().sent_bytes[last] - before[last] >= 20_000)
    after = network.statistics().sent_bytes
    between = [
        f"{one}-{other}" for one in FABRIC.switches for other in FABRIC.switches if one != other
    ]
    return {name for name in between if after[name] - before[name] > 10_000}


@pytest.mark.root
@pytest.mark.parametrize("p4", [(), ("S1", "S2", "S3")], ids=["kernel", "p4"])
def test_a_routed_flow_goes_round_and_no_other_does(p4, tmp_path):
    running = {name: targets.make("native", tmp_path / name) for name in p4}
    with Network(FABRIC, 1, running, routes=ROUTES) as network:
        assert used(network, "W4", "PS") == {"S1-S2", "S2-S3"}
        assert used(network, "W6", "PS") == {"S2-S1", "S1-S3"}
        for source, to in [("W3", "PS"), ("W4", "W7")]:
            assert used(network, source, to) == {"S1-S3"}
        assert used(network, "PS", "W4") == {"S3-S1"}
