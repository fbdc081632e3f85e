"""The losses that a network counts, by place."""

from __future__ import annotations

import socket
from contextlib import suppress

import pytest
from namespaces import open_socket
from patience import awaited

from testbed import wire
from testbed.backends.emulation.network import Network
from testbed.topology.builders import leaf_spine

_RCVBUFFORCE = 33  # beyond the system's limit, which root may exceed; Python has no name for it
RATE = 20e6
PACKET = bytes(wire.HEADER_BYTES + 4 * wire.VALUES)
FRAME = len(PACKET) + 42
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


def sent_and_read(network, receiver, senders, each):
    """Let every sender send ``each`` packets, in turn, before the receiver reads. When every packet
    has passed the last link or is counted as a loss, return how many packets it reads."""
    begin, count, read = network.statistics().sent_bytes["t0-h2"], each * len(senders), 0
    for _ in range(each):
        for sender in senders:
            sender.sendto(PACKET, receiver.getsockname())

    def carried():
        found = network.statistics()
        return found.sent_bytes["t0-h2"] - begin >= (count - found.queue_drops) * FRAME

    def accounted():
        nonlocal read
        with suppress(BlockingIOError):
            while receiver.recv(2048):
                read += 1
        found = network.statistics()
        return read + found.queue_drops + found.lost["h2"] >= count

    receiver.setblocking(False)
    awaited(carried)
    awaited(accounted)
    return read


@pytest.mark.root
def test_packets_that_a_host_was_too_slow_to_read_are_its_loss(network):
    with (
        socket_of(network, "h2", SO_RCVBUF=8192) as receiver,
        socket_of(network, "h0") as sender,
    ):
        read = sent_and_read(network, receiver, [sender], 50)
    statistics = network.statistics()
    assert 0 < read < 50
    assert statistics.lost == {"h0": 0, "h1": 0, "h2": 50 - read}
    assert statistics.queue_drops == 0


@pytest.mark.root
def test_packets_that_a_full_queue_dropped_are_told_apart(network):
    with (
        socket_of(network, "h2") as receiver,
        socket_of(network, "h0") as one,
        socket_of(network, "h1") as other,
    ):
        receiver.setsockopt(socket.SOL_SOCKET, _RCVBUFFORCE, 1 << 22)
        # Twice the rate of the last link, for many times as long as its queue takes.
        read = sent_and_read(network, receiver, [one, other], 500)
    statistics = network.statistics()
    assert read < 1000
    assert statistics.queue_drops == 1000 - read
    assert not any(statistics.lost.values())
    assert statistics.sent_bytes["t0-h2"] == pytest.approx(FRAME * read, abs=400)  # with the probe
