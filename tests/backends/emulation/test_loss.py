"""ATP over links that lose packets: every sum stays exact."""

from __future__ import annotations

import shutil
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from jobs import reduce
from namespaces import open_socket
from patience import PATIENCE_S
from tiny import experiment, trace_file
from traffic import TARGETS, fabric, switches

from testbed.backends.emulation import node_setup
from testbed.backends.emulation.network import EmulationError, Network
from testbed.backends.links import shares
from testbed.topology.fabric import Kind

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(shutil.which("nft") is None, reason="nft is not installed"),
]


# One iteration with few packets, because a lost packet may cost a timeout.
ONE = {"jobs__0__iterations": 1, "jobs__0__warmup": 0}


def lose(network, nodes, hook, share):
    """Drop ``share`` of the packets that pass ``hook`` of every interface of ``nodes``."""
    for node in nodes:
        links = [network.addressing.interface(node, n) for n in network.fabric.neighbours(node)]
        done = subprocess.run(
            [*network.inside(node), "nft", "-f", "-"],
            input="".join(node_setup.impairment("loss", hook, link, share) for link in links),
            capture_output=True,
            text=True,
            check=False,
        )
        if hook == "egress" and "not supported" in done.stderr:
            pytest.skip(f"nftables cannot lose at the egress here (Linux 5.17): {done.stderr}")
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

    # At least about ten losses at the spines, which the fewest packets pass; up to six at a time.
    trace_file(tmp_path, fragments=round(30 / share))
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
    """Several packets that travel as one are lost together."""
    trace_file(tmp_path, fragments=256)
    tiny = experiment(tmp_path, fabric__ina=ina, emulation__target=target, **ONE)
    done = reduce(
        tiny, tmp_path, lambda network: lose(network, network.fabric.nodes, "egress", 0.05)
    )
    done.assert_exact()
    assert sum(each.retransmitted for each in done.workers) > 0


@pytest.mark.parametrize("system", ["ps", "ring"])
def test_systems_on_tcp_are_exact_under_loss(system, tmp_path):
    tiny = experiment(tmp_path, jobs__0__system=system, **ONE)
    reduce(
        tiny, tmp_path, lambda network: lose(network, network.fabric.hosts, "ingress", 0.01)
    ).assert_exact()


def arrived(network, source, to, count, silence_s=0.5):
    """The share of ``count`` packets from one host to another that arrives. If any is missing, wait
    until nothing has come for ``silence_s``."""
    address = (network.addressing.ip(to), 5000)
    with (
        open_socket(network, to, socket.SOCK_DGRAM) as receiver,
        open_socket(network, source, socket.SOCK_DGRAM) as sender,
    ):
        receiver.bind(address)
        got, forwarded_s = 0, 0.005
        for batch in range(count // 20):
            own = b"%d" % batch
            for _ in range(20):
                sender.sendto(own, address)
            # Wait until the switch has forwarded them: a queue of BMv2 holds 64 packets.
            receiver.settimeout(forwarded_s)
            came = drain(receiver)
            got += len(came)
            if len({*came}) > 1:  # some of the batch before: the machine is busy
                forwarded_s = min(2 * forwarded_s, 0.5)
        if got < count:
            receiver.settimeout(silence_s)
            got += len(drain(receiver, count - got))
        return got / count


def drain(receiver, most=None):
    """What comes until it is silent, or ``most`` packets have come."""
    came = []
    with suppress(BlockingIOError, TimeoutError):
        while len(came) != most:
            came.append(receiver.recv(100))
    return came


@pytest.mark.parametrize("p4", [(), ("t0",)], ids=["kernel", "P4"])
@pytest.mark.parametrize("target", TARGETS)
def test_a_network_loses_the_share_that_was_asked_for(target, p4, tmp_path):
    # h0 and h1 are under t0, h2 under t1. Hosts' links lose in both directions, others do not.
    share = 0.2
    made = switches(target, p4, tmp_path)
    with Network(fabric(p4), 1.0, made, loss=shares(share, fabric(p4))) as network:
        for source, to in [("h0", "h1"), ("h0", "h2"), ("h2", "h0")]:
            got = arrived(network, source, to, 4000)
            assert got == pytest.approx((1 - share) ** 2, abs=0.04), (source, to)
        assert not network.statistics().queue_drops


@pytest.mark.parametrize("p4", [(), ("t0",), ("t0", "t1", "s0")], ids=["kernel", "a ToR", "P4"])
def test_any_link_loses_and_copies_what_is_asked_of_it(p4, tmp_path):
    made, asked = switches("native", p4, tmp_path), fabric(p4, spines=1)
    lost, copied = shares({"s0-t0": 0.2}, asked), shares({"t1-s0": 0.3}, asked)
    with Network(asked, 1.0, made, loss=lost, duplication=copied) as network:
        assert arrived(network, "h0", "h1", 4000, PATIENCE_S) == 1
        for source, to in [("h0", "h2"), ("h2", "h0")]:
            got = arrived(network, source, to, 4000)
            assert got == pytest.approx(0.8 * 1.3, abs=0.05), (source, to)
        assert not network.statistics().queue_drops


@pytest.mark.parametrize("p4", [(), ("t0", "t1")], ids=["kernel", "P4"])
def test_what_a_network_loses_tcp_sends_again(p4, tmp_path):
    made, lost = switches("native", p4, tmp_path), shares(0.02, fabric(p4))
    with Network(fabric(p4), 1.0, made, loss=lost) as network:
        ends = network.addressing.ip("h3"), 5000
        with (
            open_socket(network, "h3", socket.SOCK_STREAM) as listener,
            open_socket(network, "h0", socket.SOCK_STREAM) as sender,
        ):
            listener.bind(ends)
            listener.listen()
            sender.connect(ends)
            receiver, _ = listener.accept()
            with receiver:
                # 70 segments over two links with 2 % loss would all arrive in one of twenty runs.
                size = 1_000_000
                with ThreadPoolExecutor(1) as sending:
                    sent = sending.submit(sender.sendall, bytes(size))
                    arrived = 0
                    while arrived < size:
                        arrived += len(receiver.recv(1 << 16))
                    sent.result()
        text = Path(f"/proc/{network.pid('h0')}/net/snmp").read_text()
        names, counts = (line.split() for line in text.splitlines() if line.startswith("Tcp:"))
        assert int(counts[names.index("RetransSegs")]) > 0


def test_without_nft_nothing_is_lost_in_silence(monkeypatch):
    which = shutil.which
    monkeypatch.setattr(shutil, "which", lambda tool: None if tool == "nft" else which(tool))
    with (
        pytest.raises(EmulationError, match="nft is not installed"),
        Network(fabric(), 1.0, {}, loss=shares(0.1, fabric())),
    ):
        pass
