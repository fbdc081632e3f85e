"""On a fat-tree of 16 hosts and 20 switches, all paths are used and nothing is left behind."""

from __future__ import annotations

import socket

import pytest
from leftovers import assert_gone, namespaces
from namespaces import open_socket
from patience import awaited
from traffic import TARGETS, switches, unreachable

from testbed.backends.emulation.network import Network
from testbed.topology.builders import fat_tree, leaf_spine
from testbed.topology.fabric import Fabric

pytestmark = pytest.mark.root

FABRIC = fat_tree(4, 2, 1e9, 1e9, 256_000)
FLOWS, SIZE = 200, 1000


def flows(network: Network, source: str, to: str) -> dict[str, int]:
    """Send one packet in each of many flows, and count those that leave each interface."""
    address = network.addressing.ip(to)
    before = network.statistics().sent_bytes
    with open_socket(network, source, socket.SOCK_DGRAM) as sender:
        sender.bind((network.addressing.ip(source), 9999))
        for port in range(FLOWS):
            sender.sendto(bytes(SIZE), (address, 10_000 + port))
    (last,) = (name for name in before if name.endswith(f"-{to}"))
    awaited(lambda: network.statistics().sent_bytes[last] - before[last] >= FLOWS * SIZE)
    after = network.statistics().sent_bytes
    return {name: (after[name] - before[name]) // SIZE for name in after}


@pytest.mark.usefixtures("root_namespace")
def test_it_connects_every_pair():
    with Network(FABRIC, 10, {}) as network:
        inodes = namespaces(network)
        assert len(inodes) == 36
        assert not unreachable(network)
    assert_gone(inodes)


@pytest.mark.parametrize("seed", [1, 2])
def test_flows_spread_over_all_four_cores(seed):
    with Network(FABRIC, 1, {}, seed=seed) as network:
        sent = flows(network, "h0", "h15")
    over = [sent[link] for link in ("c0-a6", "c1-a6", "c2-a7", "c3-a7")]
    assert sum(over) == pytest.approx(FLOWS, rel=0.1)
    assert min(over) > FLOWS / 8


def test_the_same_seed_draws_the_same_ways():
    drawn = []
    for seed in (5, 5, 6):
        with Network(leaf_spine(4, 2, 1, 1e9, 1e9, 256_000), 1, {}, seed=seed) as network:
            drawn.append(flows(network, "h0", "h1"))
    assert drawn[0] == drawn[1] != drawn[2]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "p4", [("t0",), ("a0", "a1"), ("c3",), ("t0", "a1", "c0", "t7")], ids="+".join
)
def test_p4_switches_stand_in_every_tier(target, p4, tmp_path):
    fabric: Fabric = FABRIC.with_ina(p4)
    with Network(fabric, 10, switches(target, p4, tmp_path)) as network:
        assert not unreachable(network)
        assert not network.dead()
