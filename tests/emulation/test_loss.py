"""ATP over links that lose packets: every sum stays exact."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from jobs import reduce
from tiny import experiment, trace_file

from testbed.topology.fabric import Kind

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(shutil.which("nft") is None, reason="nft is not installed"),
]


# A lost packet may cost a timeout: one iteration, of few packets.
ONE = {"jobs__0__iterations": 1, "jobs__0__warmup": 0}


def lose(network, nodes, hook, share):
    """Drop ``share`` of the packets that pass ``hook`` of every interface of ``nodes``.

    What a P4 switch reads it reads before the ingress hook: packets to it are lost at the egress
    of the other end.
    """
    for node in nodes:
        rules = ["add table netdev loss"]
        for port, neighbour in enumerate(network.fabric.neighbours(node)):
            link = network.addressing.interface(node, neighbour)
            rules += [
                f"add chain netdev loss port{port} {{ type filter hook {hook} device {link}"
                " priority 0 ; }",
                f"add rule netdev loss port{port} numgen random mod 1000 < {round(1000 * share)}"
                " counter drop",
            ]
        done = subprocess.run(
            [*network.inside(node), "nft", "-f", "-"],
            input="\n".join(rules) + "\n",
            capture_output=True,
            text=True,
            check=False,
        )
        if hook == "egress" and "not supported" in done.stderr:
            pytest.skip(f"nftables has no egress hook here (Linux 5.16): {done.stderr}")
        assert done.returncode == 0, done.stderr


PLACES = {
    "into hosts": (Kind.HOST, "ingress"),
    "out of hosts": (Kind.HOST, "egress"),
    "out of ToRs": (Kind.TOR, "egress"),
    "into spines": (Kind.SPINE, "ingress"),
}


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
@pytest.mark.parametrize("share", [0.01, 0.05])
def test_atp_is_exact_under_loss(share, place, tmp_path):
    kind, hook = place

    def disturb(network):
        nodes = [name for name, node in network.fabric.nodes.items() if node.kind is kind]
        lose(network, nodes, hook, share)

    # Some ten losses at the least where the fewest packets pass, the spines.
    trace_file(tmp_path, fragments=round(5 / share))
    done = reduce(experiment(tmp_path, fabric__ina="all", **ONE), tmp_path, disturb)
    done.assert_exact()
    assert sum(each.retransmitted for each in done.workers) > 0


@pytest.mark.parametrize(
    ("target", "ina"),
    [
        ("native", "none"),
        ("native", ["t0"]),
        ("native", "all"),
        pytest.param("bmv2", "all", marks=pytest.mark.bmv2),
    ],
    ids=str,
)
def test_atp_is_exact_when_every_link_loses(ina, target, tmp_path):
    trace_file(tmp_path, fragments=64)
    tiny = experiment(tmp_path, fabric__ina=ina, emulation__target=target, **ONE)
    done = reduce(
        tiny, tmp_path, lambda network: lose(network, network.fabric.nodes, "egress", 0.02)
    )
    done.assert_exact()
    assert sum(each.retransmitted for each in done.workers) > 0


@pytest.mark.parametrize("system", ["ps", "ring"])
def test_systems_on_tcp_are_exact_under_loss(system, tmp_path):
    tiny = experiment(tmp_path, jobs__0__system=system, **ONE)
    reduce(
        tiny, tmp_path, lambda network: lose(network, network.fabric.hosts, "ingress", 0.01)
    ).assert_exact()
