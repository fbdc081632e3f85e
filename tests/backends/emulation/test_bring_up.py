"""A fabric in Mininet connects all hosts at the configured rates, and leaves nothing behind."""

from __future__ import annotations

import os
import time
from functools import partial

import pytest
from leftovers import assert_gone, namespaces
from traffic import CLOSE, RATE, TARGETS, carried, fabric, switches, transfer, unreachable

from testbed import wire
from testbed.backends.emulation import node_setup
from testbed.backends.emulation.cleanup import TAG
from testbed.backends.emulation.network import EmulationError, Network
from testbed.switches.control import ControlError
from testbed.topology.framing import Framing

pytestmark = pytest.mark.root

DILATION = 1.0


@pytest.mark.usefixtures("root_namespace")
@pytest.mark.parametrize("racks", [(2, 2), (1, 3, 1), (4,)], ids=str)
def test_kernel_routers_connect_every_pair(racks):
    with Network(fabric(racks=racks), DILATION, {}) as network:
        assert TAG in os.environ
        assert not unreachable(network)
        inodes = namespaces(network)
        assert len(inodes) == len(network.fabric.nodes)
    assert TAG not in os.environ
    assert_gone(inodes)


@pytest.mark.usefixtures("root_namespace")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("p4", [("t1",), ("t0", "t1", "s0")], ids="+".join)
def test_p4_switches_connect_every_pair(target, p4, tmp_path):
    net = Network(fabric(p4), DILATION, switches(target, p4, tmp_path))
    with net as network:
        assert not unreachable(network)
        assert not network.dead()
        assert set(network.statistics().lost.values()) == {0}
        inodes = namespaces(network)
    assert_gone(inodes)


def rate_of_tcp(network, source, to):
    return 8 * transfer(network, source, to, "tcp", 1 << 16)[0] / Framing().tcp_efficiency


def rate_of_packets(network, source, to):
    size = wire.HEADER_BYTES + 4 * wire.VALUES
    bytes_s, packets_s = transfer(network, source, to, "udp", size)
    assert bytes_s == pytest.approx(packets_s * size)
    return 8 * Framing().frame * packets_s


@pytest.mark.alone
def test_kernel_routers_carry_the_configured_rate():
    with Network(fabric(rate=20 * RATE), 20.0, {}) as network:
        for measure in (rate_of_tcp, rate_of_packets):
            rate = carried(RATE, partial(measure, network, "h0", "h3"))
            assert rate == pytest.approx(RATE, rel=CLOSE), measure.__name__
        assert set(network.statistics().lost.values()) <= {0}


@pytest.mark.alone
@pytest.mark.parametrize("target", TARGETS)
def test_p4_switches_carry_the_configured_rate(target, tmp_path):
    wanted = RATE / 2
    p4 = ("t0", "t1")
    targets = switches(target, p4, tmp_path)
    with Network(fabric(p4), RATE / wanted, targets) as network:
        for measure in (rate_of_tcp, rate_of_packets):
            rate = carried(wanted, partial(measure, network, "h0", "h3"))
            assert rate == pytest.approx(wanted, rel=CLOSE), measure.__name__
        assert set(network.statistics().lost.values()) == {0}


@pytest.mark.alone
def test_unshaped_links_are_faster_than_shaped_ones():
    with Network(fabric(), None, {}) as network:
        assert rate_of_tcp(network, "h0", "h3") > 2 * RATE


def test_the_wire_is_silent_without_traffic():
    with Network(fabric(), DILATION, {}) as network:
        before = network.statistics().sent_bytes
        assert set(before) == {
            network.addressing.interface(*ends)
            for link in network.fabric.links
            for ends in ((link.a, link.b), (link.b, link.a))
        }
        time.sleep(1.5)
        assert network.statistics().sent_bytes == before


def test_a_full_queue_is_counted():
    with Network(fabric(racks=(2,)), DILATION, {}) as network:
        # More than the queue holds, sent at once without waiting for the receiver.
        transfer(network, "h0", "h1", "burst", 1000)
        assert network.statistics().queue_drops > 0


@pytest.mark.usefixtures("root_namespace")
def test_a_switch_that_does_not_start_leaves_nothing(monkeypatch):
    class Broken:
        closed = cuts_superframes = False

        def start(self, interfaces, prefix_command, superframe):
            raise ControlError("it does not want to")

        def close(self):
            self.closed = True

    seen = []
    broken = Broken()
    net = Network(fabric(("t0",)), DILATION, {"t0": broken})
    build = net._build

    def build_and_look():
        build()
        seen.append(namespaces(net))

    monkeypatch.setattr(net, "_build", build_and_look)
    with pytest.raises(EmulationError, match=r"^t0: it does not want to"), net:
        pass
    assert broken.closed
    assert_gone(seen[0])
    assert TAG not in os.environ


@pytest.mark.usefixtures("root_namespace")
def test_a_fabric_with_no_way_through_is_told_and_leaves_nothing(monkeypatch):
    monkeypatch.setattr(
        node_setup,
        "script",
        lambda node, *rest, script=node_setup.script, **more: (
            "" if node.startswith("s") else script(node, *rest, **more)
        ),
    )
    with pytest.raises(EmulationError, match="no path through the fabric from h0 to h2"):
        Network(fabric(), DILATION, {}).__enter__()


@pytest.mark.usefixtures("root_namespace")
def test_a_node_that_cannot_be_set_up_is_named(monkeypatch):
    monkeypatch.setattr(
        node_setup,
        "script",
        lambda node, *rest, script=node_setup.script, **more: (
            "ip link set no-such-link up" if node == "t1" else script(node, *rest, **more)
        ),
    )
    with pytest.raises(EmulationError, match=r"cannot set up t1: .*no-such-link"):
        Network(fabric(), DILATION, {}).__enter__()


def test_two_fabrics_stand_side_by_side():
    with Network(fabric(), DILATION, {}) as one, Network(fabric(), DILATION, {}) as other:
        assert not namespaces(one) & namespaces(other)
        assert not unreachable(one)
        assert not unreachable(other)
