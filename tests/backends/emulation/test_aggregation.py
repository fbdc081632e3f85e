"""Sums made by real switches on real links, without any of the testbed's endpoints."""

from __future__ import annotations

import socket

import numpy as np
import pytest
from namespaces import open_socket
from patience import PATIENCE_S

from testbed import wire
from testbed.backends.emulation import targets
from testbed.backends.emulation.network import Network
from testbed.plan.trees import Tree
from testbed.protocols.allocation import Allocation
from testbed.protocols.atp.protocol import PROTOCOL as ATP
from testbed.systems import Assignment
from testbed.systems.atp import tree as atp_tree
from testbed.topology.builders import fat_tree, leaf_spine
from testbed.topology.fabric import Fabric

JOB = 7
FRAGMENTS = 40
BURST = 8
"""Packets that a host sends before what comes of them is read. A queue of BMv2 holds 64 packets,
and a packet that it drops on a busy machine is lost: no endpoint here sends it again."""
WORKERS, SERVER = ("h0", "h1", "h3", "h4"), "h5"


def packets(kind: int, values: np.ndarray, bitmap: int) -> np.ndarray:
    """One packet for each row of ``values``, each with its own slot."""
    made = np.zeros(len(values), wire.PACKET)
    made["kind"], made["tree"], made["bitmap"] = kind, JOB, bitmap
    made["sequence"] = made["slot"] = np.arange(len(values))
    made["values"] = values
    return made


def received(endpoint: socket.socket, count: int) -> np.ndarray:
    """``count`` packets, sorted by sequence number."""
    got = np.empty(count, wire.PACKET)
    for index in range(count):
        try:
            got[index : index + 1] = np.frombuffer(endpoint.recv(2048), wire.PACKET)
        except TimeoutError:
            pytest.fail(f"{index} of {count} packets came")
    return got[np.argsort(got["sequence"])]


def nothing_comes(endpoint: socket.socket) -> None:
    endpoint.settimeout(0.2)
    with pytest.raises(TimeoutError):
        endpoint.recv(2048)


def atp(*ina: str) -> tuple[Fabric, Tree]:
    fabric = leaf_spine(2, 2, 3, 1e9, 1e9, 256_000).with_ina(ina)
    tree = atp_tree(Assignment(WORKERS, (SERVER,)), fabric)
    assert set(tree.switches) == set(ina)
    return fabric, tree


def any_tier(parents: dict[str, str]) -> tuple[Fabric, Tree]:
    """Four workers in three pods of a fat-tree, the server in the fourth."""
    workers, server = ("h0", "h1", "h4", "h9"), "h15"
    ranks = {host: rank for rank, host in enumerate(workers)}
    tree = Tree(server, ranks, parents, ATP, root_rank=len(workers))
    return fat_tree(4, 2, 1e9, 1e9, 256_000).with_ina(tree.switches), tree


CASES = {
    "t0": atp("t0"),
    "t1": atp("t1"),
    "t0+t1": atp("t0", "t1"),
    "core": any_tier({"h0": "c1", "h1": "c1", "h4": "c1", "h9": "c1", "c1": "h15"}),
    "aggregation": any_tier(
        {"h0": "a0", "h1": "a0", "a0": "h15", "h4": "a6", "h9": "a6", "a6": "h15"}
    ),
    "every tier": any_tier(
        {
            "h0": "t0",
            "h1": "t0",
            "t0": "a1",
            "h4": "a1",
            "a1": "c2",
            "h9": "c2",
            "c2": "t7",
            "t7": "h15",
        }
    ),
}


@pytest.mark.root
@pytest.mark.parametrize("target", ["native", pytest.param("bmv2", marks=pytest.mark.bmv2)])
@pytest.mark.parametrize("case", CASES)
def test_the_server_gets_the_sum_and_every_worker_the_result(target, case, tmp_path):
    fabric, tree = CASES[case]
    workers, server = tuple(tree.rank_of), tree.root
    switches = {name: targets.make(target, tmp_path / name) for name in tree.switches}
    # Values reach both limits of int32, so that sums wrap around.
    random = np.random.default_rng(1)
    shape = (len(workers), FRAGMENTS, wire.VALUES)
    values = random.integers(-(2**31), 2**31, shape, dtype=np.int32)
    total = values.sum(axis=0, dtype=np.int32)

    with Network(fabric, 10, switches, [Allocation(JOB, JOB, tree, 0, wire.SLOTS)]) as network:
        address = {node: (network.addressing.ip(node), wire.PORT) for node in fabric.nodes}
        sockets = {
            host: open_socket(network, host, socket.SOCK_DGRAM) for host in (*workers, server)
        }
        try:
            for host, endpoint in sockets.items():
                endpoint.bind(address[host])
                endpoint.settimeout(PATIENCE_S)
            data = [packets(wire.KIND_DATA, own, 1 << rank) for rank, own in enumerate(values)]
            sums = []
            for first in range(0, FRAGMENTS, BURST):
                for host, own in zip(workers, data, strict=True):
                    for packet in own[first : first + BURST]:
                        sockets[host].sendto(packet.tobytes(), address[tree.parent[host]])
                sums.append(received(sockets[server], BURST * tree.streams))
            streams = np.concatenate(sums)
            nothing_comes(sockets[server])
            assert not (streams["flags"] & ~np.uint8(wire.FLAG_OVERFLOW)).any()
            for child in tree.children(server):
                ranks = sorted(tree.ranks_below(child))
                stream = streams[streams["bitmap"] == sum(1 << rank for rank in ranks)]
                partial = values[ranks].sum(axis=0, dtype=np.int32)
                assert np.array_equal(stream["values"], partial)

            results = packets(wire.KIND_RESULT, total, 0)
            for first in range(0, FRAGMENTS, BURST):
                sent = results[first : first + BURST]
                for packet in sent:
                    for child in tree.children(server):
                        sockets[server].sendto(packet.tobytes(), address[child])
                for host in workers:
                    result = received(sockets[host], BURST)
                    assert (result["kind"] == wire.KIND_RESULT).all()
                    assert np.array_equal(result["values"], sent["values"])
            for host in workers:
                nothing_comes(sockets[host])
        finally:
            for endpoint in sockets.values():
                endpoint.close()
        for switch in switches.values():
            held = [
                switch.read_register("InaIngress.aggregation.contributors", slot)
                for slot in range(FRAGMENTS)
            ]
            assert not any(held)
        assert not any(network.statistics().lost.values())
