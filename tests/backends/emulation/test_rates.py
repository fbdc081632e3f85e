"""A link that does not keep its rate is detected, whatever rate was set. Its shaper passes a frame
at once, so frames are no longer than asked."""

from __future__ import annotations

import re
import subprocess
import threading
import time

import pytest
from traffic import RATE, fabric, transfer

from testbed.backends.emulation.network import Network
from testbed.backends.emulation.rates import Rates, ports

pytestmark = [pytest.mark.root, pytest.mark.alone]

SLOWED = "t1-h3"


def watched(network: Network) -> Rates:
    """The links' rates while h0 sends to h3 at full speed."""
    rates = Rates(
        ports(network.fabric, network.addressing, 1.0, network.superframe), network.queues
    )
    sending = threading.Thread(target=transfer, args=(network, "h0", "h3", "tcp", 1 << 16))
    rates.start()
    sending.start()
    while sending.is_alive():
        sending.join(0.02)
        rates._look()
    return rates


def reshape(network: Network, factor: float) -> None:
    change = f"tc class change dev {SLOWED} parent 1: classid 1:1 htb rate {RATE * factor:.0f}bit"
    subprocess.run([*network.inside("t1"), *change.split()], check=True)


def test_links_that_keep_to_their_rates_are_not_blamed():
    with Network(fabric(), 1.0, {}) as network:
        rates = watched(network)
    for port in rates.ports.values():
        assert port.most < 1.05


def test_a_slower_link_is_seen_where_packets_wait():
    with Network(fabric(), 1.0, {}) as network:
        reshape(network, 0.5)
        rates = watched(network)
    share = rates.ports[SLOWED].share
    assert share is not None
    assert share < 0.8


def test_a_faster_link_is_seen():
    with Network(fabric(rate=RATE / 4), 1.0, {}) as network:
        for name in ("h0-t0", "t0-s0", "t0-s1", "s0-t1", "s1-t1", SLOWED):
            node = name.partition("-")[0]
            change = f"tc class change dev {name} parent 1: classid 1:1 htb rate {RATE:.0f}bit"
            subprocess.run([*network.inside(node), *change.split()], check=True)
        rates = watched(network)
    assert rates.ports[SLOWED].most > 1.5


def test_counters_are_those_of_tc():
    with Network(fabric(racks=(2,)), 1.0, {}) as network:
        transfer(network, "h0", "h1", "burst", 1000)
        # Wait until the burst has left the queues.
        while any(queue.waiting_bytes for queue in network.queues().values()):
            time.sleep(0.02)
        readings, statistics = network.queues(), network.statistics()
        said = subprocess.run(
            [*network.inside("t0"), "tc", "-s", "qdisc", "show", "dev", "t0-h1", "root"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    port = readings["t0-h1"]
    assert f"Sent {port.sent_bytes} bytes {port.sent_packets} pkt (dropped {port.dropped}," in said
    assert sum(each.dropped for each in readings.values()) == statistics.queue_drops > 0


@pytest.mark.parametrize("whole", [False, True])
def test_tcp_passes_no_more_to_a_shaper_at_once_than_asked(whole):
    with Network(fabric(racks=(2,)), 1.0, {}, whole_frames=whole) as network:
        longest = network.superframe * network.fabric.mtu + 14  # the Ethernet header
        count = (
            "add table netdev frames\n"
            "add chain netdev frames sent"
            " { type filter hook egress device h0-t0 priority 0 ; }\n"
            f"add rule netdev frames sent meta length > {longest} counter\n"
            f"add rule netdev frames sent meta length > {longest / 2:.0f} counter\n"
        )
        subprocess.run([*network.inside("h0"), "nft", "-f", "-"], input=count.encode(), check=True)
        transfer(network, "h0", "h1", "tcp", 1 << 16)
        said = subprocess.run(
            [*network.inside("h0"), "nft", "list", "table", "netdev", "frames"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    longer, long = map(int, re.findall(r"packets (\d+)", said))
    assert longer == 0 < long
