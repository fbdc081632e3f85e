"""INA and RoCE packets as lines of text."""

from __future__ import annotations

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw
from scapy.utils import wrpcap

from testbed import wire
from testbed.switches.decode import NoCapture, lines
from testbed.switches.layer import AETH, BTH, INA

ENDS = Ether() / IP(src="10.0.0.1", dst="10.0.255.254")
VALUES = [3, -1, 2, 7] + [1] * (wire.VALUES - 4)


def ina(**fields):
    return ENDS / UDP(sport=wire.PORT, dport=wire.PORT) / INA(**fields)


def roce(opcode, payload, **fields):
    bth = BTH(opcode=opcode, connection=65, sequence=9, **fields)
    return ENDS / UDP(sport=wire.ROCE_PORT, dport=wire.ROCE_PORT) / bth / payload


@pytest.mark.parametrize(
    ("packet", "words"),
    [
        (
            ina(kind="data", tree=3, sequence=7, slot=12, bitmap=0b10001011, values=VALUES),
            "data tree 3 fragment 7 slot 12 of 0-1,3,7 [3 -1 2 7 … sum 263]",
        ),
        (
            ina(kind="result", flags="resend+ecn", slot=1, next_slot=5, values=VALUES),
            "result resend,ecn tree 0 fragment 0 slot 1 next slot 5 [3 -1",
        ),
        (ina(kind="ack", flags="overflow", sequence=1), "ack overflow tree 0 fragment 1 slot 0"),
        (
            roce("first", INA(kind="data", tree=1, values=VALUES)),
            "RoCE first connection 65 psn 9 data tree 1 fragment 0",
        ),
        (
            roce("middle", Raw(bytes(4 * wire.VALUES)), reserved="sum"),
            "RoCE middle sum connection 65 psn 9 [0 0 0 0 … sum 0]",
        ),
        (roce("middle", Raw(bytes(4 * wire.VALUES + 1))), "RoCE middle connection 65 psn 9"),
        (roce("acknowledge", AETH(syndrome="nak")), "RoCE nak connection 65 psn 9"),
        (ENDS / UDP(dport=53) / Raw(b"?"), "UDP"),
        (Ether(type=0x88CC) / Raw(b"lldp"), "Raw"),
    ],
    ids=["data", "result", "ack", "first", "middle", "odd", "nak", "udp", "other"],
)
def test_a_packet_is_a_line(packet, words, tmp_path):
    path = tmp_path / "capture.pcap"
    wrpcap(str(path), [packet])
    (line,) = lines(path)
    assert words in line
    assert line.startswith("  0.000000  ")


def test_a_packet_cut_short_is_told(tmp_path):
    path = tmp_path / "capture.pcap"
    wrpcap(str(path), [Ether(bytes(ina(values=VALUES))[:200])])
    (line,) = lines(path)
    assert "cut short" in line


def test_what_is_no_capture_is_told(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("no packets here, only words")
    with pytest.raises(NoCapture, match=r"notes\.txt: found no capture"):
        list(lines(path))
