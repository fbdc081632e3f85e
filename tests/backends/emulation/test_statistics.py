"""The losses that a network counts, by place."""

from __future__ import annotations

import socket
import time

import pytest
from namespaces import open_socket

from testbed import wire
from testbed.backends.emulation.network import Network
from testbed.topology.builders import leaf_spine

RATE = 20e6
PACKET = bytes(wire.HEADER_BYTES + 4 * wire.VALUES)
FABRIC = leaf_spine(1, 1, 3, RATE, RATE, 64_000)


@pytest.fixture
def network():
    with Network(FABRIC, 1, {}) as running:
        yield running


def socket_of(network, host, **options):
    opened = open_socket(network, host, socket.SOCK_DGRAM)
    opened.bind((network.addressing.ip(host), 5000))
    for option, value in options.items():
        opened.setsockopt(socket.SOL_SOCKET, getattr(socket, option), value)
    return opened


@pytest.mark.root
def test_packets_that_a_host_was_too_slow_to_read_are_its_loss(network):
    with (
        socket_of(network, "h2", SO_RCVBUF=8192) as receiver,
        socket_of(network, "h0") as sender,
    ):
        for _ in range(50):
            sender.sendto(PACKET, receiver.getsockname())
        time.sleep(0.5)  # until the last packet has passed the link
        receiver.settimeout(0.2)
        read = 0
        with pytest.raises(TimeoutError):
            while receiver.recv(2048):
                read += 1
    statistics = network.statistics()
    assert 0 < read < 50
    assert statistics.lost == {"h0": 0, "h1": 0, "h2": 50 - read}
    assert statistics.queue_drops == 0


@pytest.mark.root
def test_packets_that_a_full_queue_dropped_are_told_apart(network):
    with (
        socket_of(network, "h2", SO_RCVBUF=1 << 20) as receiver,
        socket_of(network, "h0") as one,
        socket_of(network, "h1") as other,
    ):
        # Twice the rate of the last link, and more than its queue holds.
        for _ in range(110):
            one.sendto(PACKET, receiver.getsockname())
            other.sendto(PACKET, receiver.getsockname())
        receiver.settimeout(0.5)
        read = 0
        with pytest.raises(TimeoutError):
            while receiver.recv(2048):
                read += 1
    statistics = network.statistics()
    assert read < 220
    assert statistics.queue_drops == 220 - read
    assert not any(statistics.lost.values())
    sent = (len(PACKET) + 42) * read
    assert statistics.sent_bytes["t0-h2"] == pytest.approx(sent, abs=400)  # with the probe
