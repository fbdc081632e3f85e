"""numpy, scapy and plain bytes agree on the packet's format."""

from __future__ import annotations

import struct
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from testbed import wire
from testbed.experiment import fabrics
from testbed.experiment.fabric_checks import PACKET_HEADERS
from testbed.switches.layer import BTH, INA
from testbed.topology.fabric import Fabric
from testbed.topology.framing import Framing, framing

PACKET_BYTES = wire.HEADER_BYTES + 4 * wire.VALUES

headers = st.fixed_dictionaries(
    {name: st.integers(0, 2**bits - 1) for name, bits in wire.FIELDS}
    | {"kind": st.sampled_from([wire.KIND_DATA, wire.KIND_RESULT])}
)
some_values = st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=8)


def packet(header, some):
    made = np.zeros((), wire.PACKET)
    for name, value in header.items():
        made[name] = value
    made["values"] = np.resize(np.array(some, np.int32), wire.VALUES)
    return made


def test_the_packet_lies_as_it_is_written():
    header = {
        "kind": 1, "flags": 2, "tree": 0x0304, "sequence": 0x05060708, "slot": 0x090A0B0C,
        "next_slot": 0x0D0E0F10, "bitmap": 0x1112131415161718,
    }  # fmt: skip
    data = packet(header, [-2]).tobytes()
    assert data[:24] == bytes(range(1, 25))
    assert data[24:] == struct.pack("!i", -2) * 256
    assert len(data) == 24 + 1024


@given(headers, some_values)
def test_scapy_reads_what_numpy_writes(header, some):
    made = packet(header, some)
    read = INA(made.tobytes())
    assert {name: int(getattr(read, name)) for name in header} == header
    assert read.values == made["values"].tolist()
    assert not read.payload


@given(headers, some_values)
def test_numpy_reads_what_scapy_writes(header, some):
    values = np.resize(some, wire.VALUES).tolist()
    data = bytes(INA(**header, values=values))
    (read,) = np.frombuffer(data, wire.PACKET)
    assert {name: int(read[name]) for name in header} == header
    assert read["values"].tolist() == values


@pytest.mark.parametrize("kind", ["receipt", "ack"])
def test_acknowledgements_carry_no_values(kind):
    data = bytes(INA(kind=kind, sequence=5))
    assert len(data) == wire.HEADER_BYTES
    assert INA(data).sequence == 5
    assert INA(data).values is None


@pytest.mark.parametrize("values", wire.SIZES)
def test_a_frame_on_the_link_is_as_long_as_is_said(values):
    frame = Ether() / IP() / UDP(sport=wire.PORT, dport=wire.PORT) / INA(values=[7] * values)
    assert len(bytes(frame)) == Framing(values).frame


@pytest.mark.parametrize("values", wire.SIZES)
def test_the_longest_packet_is_the_first_one_of_a_message(values):
    ina = INA(values=[7] * values)
    packet = IP() / UDP(sport=wire.ROCE_PORT, dport=wire.ROCE_PORT) / BTH(opcode="first") / ina
    assert len(bytes(packet)) == PACKET_HEADERS + 4 * values


def test_what_a_file_may_say_of_packets_is_what_there_is():
    asked = fabrics.LeafSpine.model_fields
    assert get_args(asked["values"].annotation) == wire.SIZES
    said = {name: asked[name].default for name in ("values", "mtu")}
    assert framing(Fabric("", {}, (), **said)) == framing(Fabric("", {}, ())) == Framing()


def test_the_layer_is_found_behind_its_port():
    datagram = bytes(IP() / UDP(sport=wire.PORT, dport=wire.PORT) / INA(tree=7, flags="resend"))
    read = IP(datagram)
    assert read[INA].tree == 7
    assert read[INA].flags == wire.FLAG_RESEND
    assert read[INA].sprintf("%INA.kind%") == "data"
    assert bytes(read) == datagram
    assert UDP(bytes(UDP(sport=wire.PORT, dport=wire.PORT) / INA()))[INA]


@pytest.mark.parametrize("port", [53, wire.PORT + 1])
def test_other_ports_are_none_of_ours(port):
    datagram = bytes(IP() / UDP(sport=9, dport=port) / Raw(bytes(PACKET_BYTES)))
    assert not IP(datagram).haslayer(INA)


def test_a_header_has_room_for_every_slot_and_job():
    widths = dict(wire.FIELDS)
    assert sum(widths.values()) % 64 == 0  # values are aligned to a word
    assert sum(widths.values()) == wire.HEADER_BYTES * 8
    assert np.dtype(wire.HEADER).itemsize == wire.HEADER_BYTES
    assert np.dtype(wire.PACKET).itemsize == PACKET_BYTES


def test_efficiencies_are_shares_of_the_link():
    usual, jumbo = Framing(), Framing(1024, 9000)
    assert usual.ina_efficiency == pytest.approx(1024 / 1090)
    assert usual.tcp_efficiency == pytest.approx(1448 / 1514)
    assert usual.tcp_ack_share == pytest.approx(66 / 2 / 1448)
    assert jumbo.ina_efficiency == pytest.approx(4096 / 4162)
    assert jumbo.ina_ack_share == pytest.approx(66 / 4096)
    assert jumbo.tcp_efficiency == pytest.approx(8948 / 9014)


def test_a_fragment_cut_short_is_no_packet():
    payload = bytes([wire.KIND_DATA]) + bytes(PACKET_BYTES - 2)
    datagram = UDP(sport=wire.PORT, dport=wire.PORT) / Raw(payload)
    assert not IP(bytes(IP() / datagram)).haslayer(INA)


def test_a_fragment_of_another_length_cannot_be_made():
    with pytest.raises(ValueError, match="found 3 values, wanted 8 or 64 or 256 or 1024"):
        bytes(INA(values=[1, 2, 3]))
