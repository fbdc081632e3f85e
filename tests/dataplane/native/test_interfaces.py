"""The native switch on real interfaces: veth pairs, whose far ends the tests hold."""

from __future__ import annotations

import socket
import subprocess
import time

import pytest
from native_case import PROGRAMS
from native_cases import CASES

from testbed.dataplane.control import TableEntry, Ternary
from testbed.dataplane.native.target import NativeSwitch


@pytest.fixture
def pairs():
    names = [f"native{n}" for n in (1, 2)]
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
    end.settimeout(5)
    return end


@pytest.mark.root
def test_packets_pass_interfaces(pairs):
    frame = next(p for port, p in CASES["router"].packets() if port == 1)
    with NativeSwitch(PROGRAMS / "router.json") as switch:
        switch.start({1: pairs[0], 2: pairs[1]})
        CASES["router"].set_up(switch)
        with far_end(pairs[0]) as source, far_end(pairs[1]) as sink:
            for _ in range(20):  # no more at a time than the sink's buffer holds
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


def shape(interface: str, rate: str) -> None:
    for command in (
        f"qdisc add dev {interface} root handle 1: htb default 1",
        f"class add dev {interface} parent 1: classid 1:1 htb rate {rate}",
        f"qdisc add dev {interface} parent 1:1 pfifo limit 100",
    ):
        subprocess.run(["tc", *command.split()], check=True)


@pytest.mark.root
def test_a_program_sees_the_queue_of_a_slow_link_grow_and_drain(pairs):
    """1 Mbit/s is a packet of 1250 bytes every 10 ms, and ten of them come every 2 ms."""
    shape(pairs[1], "1mbit")
    frame = bytes(12) + b"\x88\xb9" + bytes(9) + bytes(1227)
    with (
        NativeSwitch(PROGRAMS / "queue.json") as switch,
        far_end(pairs[0]) as source,
        far_end(pairs[1]) as sink,
    ):
        switch.start({1: pairs[0], 2: pairs[1]})

        def depth() -> int:
            packet = sink.recv(2000)
            enqueued, dequeued = (int.from_bytes(packet[i : i + 4], "big") for i in (14, 18))
            assert enqueued == dequeued
            assert packet[22] == (dequeued >= 20)  # the program's mark
            return dequeued

        for _ in range(8):
            for _ in range(10):
                source.send(frame)
            time.sleep(0.002)
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
    """Which the kernel takes out of packets; what leaves here has another header in front."""
    frame = bytes(12) + b"\x81\x00\x20\x07\x88\xb9" + bytes(60)
    with (
        NativeSwitch(PROGRAMS / "meters.json") as switch,
        far_end(pairs[0]) as source,
    ):
        switch.start({1: pairs[0], 2: pairs[1]})
        switch.insert(TableEntry("I.flows", (Ternary(0x8100, 0xFFFF),), "I.note"))
        source.send(frame)
        assert source.recv(2000) == bytes(3) + frame
