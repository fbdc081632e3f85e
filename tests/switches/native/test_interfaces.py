"""The native switch on real interfaces: veth pairs, whose other ends the tests use."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from native_case import PROGRAMS
from native_cases import CASES
from patience import PATIENCE_S, awaited
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import Ether

from testbed.protocols.tables import TableEntry, Ternary
from testbed.switches.native.target import NativeSwitch


@pytest.fixture
def pairs():
    # Processes that run these tests side by side share the namespace; a name has 15 characters.
    names = [f"n{os.getpid()}_{n}" for n in (1, 2)]
    for name in names:
        command = ["ip", "link", "add", name, "type", "veth", "peer", "name", f"{name}e"]
        subprocess.run(command, check=True)
        for end in (name, f"{name}e"):
            subprocess.run(["sysctl", "-qw", f"net.ipv6.conf.{end}.disable_ipv6=1"], check=True)
            subprocess.run(["ip", "link", "set", end, "up"], check=True)
    yield names
    for name in names:
        subprocess.run(["ip", "link", "del", name], check=True)


def far_end(name: str) -> socket.socket:
    end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    end.bind((f"{name}e", 3))
    end.settimeout(PATIENCE_S)
    return end


@pytest.mark.root
def test_packets_pass_interfaces(pairs):
    frame = next(p for port, p in CASES["router"].packets() if port == 1)
    with NativeSwitch(PROGRAMS / "router.json") as switch:
        switch.start({1: pairs[0], 2: pairs[1]})
        CASES["router"].set_up(switch)
        with far_end(pairs[0]) as source, far_end(pairs[1]) as sink:
            for _ in range(20):  # no more at once than the sink's buffer holds
                for _ in range(50):
                    source.send(frame)
                for _ in range(50):
                    assert sink.recv(2000)[:6].hex() == "020000000002"
        ports = switch.statistics().ports
        assert ports[1].rx_packets == 1000
        assert ports[1].rx_bytes == 1000 * len(frame)
        assert ports[2].tx_packets == 1000
        assert ports[1].rx_drops == ports[2].tx_drops == 0


@pytest.mark.root
def test_an_idle_switch_uses_no_processor(pairs):
    with NativeSwitch(PROGRAMS / "router.json") as switch:
        switch.start({1: pairs[0], 2: pairs[1]})

        def ticks() -> int:
            with open(f"/proc/{switch.pid}/stat") as stat:
                return sum(map(int, stat.read().split()[13:15]))

        before = ticks()
        time.sleep(1)
        assert ticks() - before <= 1


def tc(command: str) -> None:
    subprocess.run(["tc", *command.split()], check=True)


def shape(interface: str, rate: int) -> None:
    tc(f"qdisc add dev {interface} root handle 1: htb default 1")
    tc(f"class add dev {interface} parent 1: classid 1:1 htb rate {rate}bit")
    tc(f"qdisc add dev {interface} parent 1:1 pfifo limit 100")


@pytest.mark.root
@pytest.mark.parametrize("size", [1250, 4150])
def test_a_program_sees_the_queue_of_a_slow_link_grow_and_drain(pairs, size):
    """Ten packets arrive every 2 ms, and one leaves every 100 ms. Once all have arrived, one leaves
    every 5 ms."""
    for name in pairs:
        for end in (name, f"{name}e"):
            subprocess.run(["ip", "link", "set", end, "mtu", "9000"], check=True)
    shape(pairs[1], size * 8 * 10)
    frame = bytes(12) + b"\x88\xb9" + bytes(9) + bytes(size - 23)
    with (
        NativeSwitch(PROGRAMS / "queue.json") as switch,
        far_end(pairs[0]) as source,
        far_end(pairs[1]) as sink,
    ):
        switch.start({1: pairs[0], 2: pairs[1]})

        def depth() -> int:
            packet = sink.recv(9000)
            enqueued, dequeued = (int.from_bytes(packet[i : i + 4], "big") for i in (14, 18))
            assert enqueued == dequeued
            assert packet[22] == (dequeued >= 20)  # the program's mark
            return dequeued

        for _ in range(8):
            for _ in range(10):
                source.send(frame)
            time.sleep(0.002)
        tc(f"class change dev {pairs[1]} parent 1: classid 1:1 htb rate {size * 8 * 200}bit")
        depths = [depth() for _ in range(80)]
        assert depths[0] == 0
        assert 40 <= max(depths) <= 80
        source.send(frame)
        assert depth() == 0


@pytest.mark.root
def test_an_unshaped_link_has_no_queue(pairs):
    with (
        NativeSwitch(PROGRAMS / "queue.json") as switch,
        far_end(pairs[0]) as source,
        far_end(pairs[1]) as sink,
    ):
        switch.start({1: pairs[0], 2: pairs[1]})
        for _ in range(50):
            source.send(bytes(1000))
        assert all(sink.recv(2000)[14:23] == bytes(9) for _ in range(50))


@pytest.mark.root
def test_a_program_sees_vlan_tags(pairs):
    """The kernel removes the tags from packets. This program adds another header in front."""
    frame = bytes(12) + b"\x81\x00\x20\x07\x88\xb9" + bytes(60)
    with (
        NativeSwitch(PROGRAMS / "meters.json") as switch,
        far_end(pairs[0]) as source,
    ):
        switch.start({1: pairs[0], 2: pairs[1]})
        switch.insert(TableEntry("I.flows", (Ternary(0x8100, 0xFFFF),), "I.note"))
        source.send(frame)
        assert source.recv(2000) == bytes(3) + frame


SOL_PACKET, PACKET_VNET_HDR = 263, 15
UDP_L4, TCP_V4, ECN = 5, 1, 0x80


def superframe(kind: int, carried: int, piece: int) -> bytes:
    """The bytes of a superframe for a packet socket: a struct virtio_net_hdr with the tasks of the
    hardware, and the frame, whose transport checksum so far covers only the pseudo header. Without
    a ``piece``, it is a plain frame without a checksum."""
    tcp = kind & ~ECN == TCP_V4
    ends = {"sport": 7, "dport": 8}
    transport = TCP(**ends, seq=2**32 - 150, flags="FPAC") if tcp else UDP(**ends)
    payload = bytes(i * 7 & 0xFF for i in range(carried))
    ip = IP(src="172.16.0.1", dst="10.0.0.1", id=65533)
    frame = bytearray(bytes(Ether(dst="02:00:00:00:00:01") / ip / transport / payload))
    at, length = (16, len(frame) - 34) if tcp else (6, len(frame) - 34)
    pseudo = sum(struct.unpack("!4H", frame[26:34])) + frame[23] + length
    frame[34 + at : 36 + at] = ((pseudo & 0xFFFF) + (pseudo >> 16)).to_bytes(2, "big")
    header = struct.pack("=BBHHHH", 1, kind if piece else 0, len(frame) - carried, piece, 34, at)
    return header + bytes(frame)


def passed(pairs: list[str], sent: bytes, offload: str) -> tuple[list[bytes], int]:
    """The frames that leave a router when ``sent`` arrives, and the number of packets it counts."""
    superframe = 6 if offload == "on" else 1
    features = f"tso {offload} tx-udp-segmentation {offload} tx {offload}".split()
    subprocess.run(["ethtool", "-K", f"{pairs[0]}e", *features], check=True, capture_output=True)
    with (
        NativeSwitch(PROGRAMS / "router.json") as switch,
        far_end(pairs[0]) as source,
        far_end(pairs[1]) as sink,
    ):
        switch.start({1: pairs[0], 2: pairs[1]}, superframe=superframe)
        CASES["router"].set_up(switch)
        source.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
        source.send(sent)
        marker = next(p for port, p in CASES["router"].packets() if port == 1)
        source.send(bytes(10) + marker)
        found = []
        while len(frame := sink.recv(10000)) != len(marker):
            found.append(frame)
        return found, switch.statistics().ports[1].rx_packets - 1


@pytest.mark.root
@pytest.mark.parametrize(
    ("kind", "carried", "piece", "packets"),
    [
        (UDP_L4, 6000, 1000, 6),
        (UDP_L4, 501, 100, 6),
        (TCP_V4, 6000, 1448, 5),
        (TCP_V4 | ECN, 401, 100, 5),
        (UDP_L4, 77, 0, 1),
        (TCP_V4, 1000, 0, 1),
    ],
)
def test_superframes_are_cut_as_the_kernel_cuts_them(pairs, kind, carried, piece, packets):
    sent = superframe(kind, carried, piece)
    by_kernel = passed(pairs, sent, "off")
    assert by_kernel[1] == len(by_kernel[0]) == packets
    assert passed(pairs, sent, "on") == by_kernel


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """A context in which a process is stopped; afterwards it finds everything that has come, all at
    once."""

    def is_stopped() -> bool:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"

    os.kill(pid, signal.SIGSTOP)
    try:
        awaited(is_stopped)
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.root
def test_packets_without_a_checksum_leave_joined_and_come_out_as_they_were(pairs):
    """The kernel splits them again and adds the checksum."""
    ip = IP(src="172.16.0.1", dst="10.0.0.1")
    sent = []
    for n in (100, 101, 102, 103, 104, 7, 8):  # IPv4 identification
        ip.id = n
        udp = UDP(sport=7, dport=8, chksum=0)
        sent.append(bytes(Ether(dst="02:00:00:00:00:01") / ip / udp / bytes([n] * 901)))
    found = {}
    for offload in ("on", "off"):
        command = ["ethtool", "-K", pairs[1], "tx-udp-segmentation", offload, "tx", offload]
        subprocess.run(command, check=True, capture_output=True)
        with (
            NativeSwitch(PROGRAMS / "router.json") as switch,
            far_end(pairs[0]) as source,
            far_end(pairs[1]) as sink,
        ):
            switch.start({1: pairs[0], 2: pairs[1]}, superframe=6)
            CASES["router"].set_up(switch)
            source.send(sent[0])
            found[offload] = [sink.recv(10000)]
            with stopped(switch.pid):
                for frame in sent:
                    source.send(frame)
            while sum(map(len, found[offload])) - 42 * len(found[offload]) < 8 * 901:
                found[offload].append(sink.recv(10000))
            assert switch.statistics().ports[2].tx_packets == 8
    assert [len(frame) - 42 for frame in found["on"]] == [901, 5 * 901, 2 * 901]
    for was, frame in zip(sent, found["off"][1:], strict=True):
        assert frame[34:40] + frame[42:] == was[34:40] + was[42:]
        again = Ether(frame)
        del again[UDP].chksum, again[IP].chksum
        assert Ether(bytes(again))[UDP].chksum == Ether(frame)[UDP].chksum
        assert Ether(bytes(again))[IP].chksum == Ether(frame)[IP].chksum
        assert Ether(frame)[IP].id == Ether(was)[IP].id
