"""Captures as text, one line per packet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from scapy.error import Scapy_Exception
from scapy.layers.inet import IP
from scapy.packet import Packet
from scapy.utils import PcapReader

from testbed import wire
from testbed.switches.layer import AETH, BTH, INA, are_values

_SHOWN = 4


class NoCapture(Exception):
    """The file is not a capture; the message has the parser's error."""


def lines(path: Path) -> Iterator[str]:
    """One line for each packet of the capture. Raises NoCapture if the file is not a capture.

    A line has the seconds since the first packet, and the addresses. For an INA packet it also has
    all header fields, the first values, and the sum of all captured values.
    """
    with path.open("rb") as file:
        try:
            reader = PcapReader(file)  # type: ignore[arg-type]  # it takes files as well
        except Scapy_Exception as error:
            raise NoCapture(f"{path}: found no capture (pcap or pcapng): {error}") from error
        first = None
        for packet in reader:
            first = float(packet.time) if first is None else first
            yield f"{float(packet.time) - first:10.6f}  {line(packet)}"


def line(packet: Packet, names: Mapping[str, str] | None = None) -> str:
    """A packet as text. ``names`` has nodes' names by address; without them, addresses are shown in
    columns."""
    if not packet.haslayer(IP):
        summary: str = packet.summary()
        return summary
    source, to = packet[IP].src, packet[IP].dst
    ends = f"{source:>15} > {to:15}"
    if names is not None:
        ends = f"{names.get(source, source)} > {names.get(to, to)} "
    if packet[IP].len is not None and packet[IP].len > len(bytes(packet[IP])):
        ends += " cut short:"
    parts = [_bth(packet[BTH])] if packet.haslayer(BTH) else []
    if packet.haslayer(INA):
        parts.append(_ina(packet[INA], packet))
    elif not parts:
        return f"{ends} {packet[IP].payload.summary()}"
    elif AETH not in packet and are_values(payload := bytes(packet[BTH].payload)):
        parts.append(_values(np.frombuffer(payload, ">i4").tolist()))
    return f"{ends} {' '.join(parts)}"


def _ina(ina: INA, whole: Packet) -> str:
    flags = f" {str(ina.flags).replace('+', ',')}" if ina.flags else ""
    kind = ina.sprintf("%INA.kind%")
    text = f"{kind}{flags} tree {ina.tree} fragment {ina.sequence} slot {ina.slot}"
    if ina.next_slot not in (0, ina.slot):
        upwards = ina.kind in (wire.KIND_DATA, wire.KIND_RECEIPT) and BTH not in whole
        text += f" node {ina.next_slot}" if upwards else f" next slot {ina.next_slot}"
    if ina.bitmap:
        text += f" of {_ranks(int(ina.bitmap))}"
    return text if ina.values is None else f"{text} {_values(ina.values)}"


def _bth(bth: BTH) -> str:
    said = bth.sprintf("%BTH.opcode%") if AETH not in bth else bth.sprintf("%AETH.syndrome%")
    again = " sum" if bth.reserved else ""
    return f"RoCE {said}{again} connection {bth.connection} psn {bth.sequence}"


def _ranks(bitmap: int) -> str:
    """Ranks as runs: 0-3,7."""
    ranks = [rank for rank in range(wire.BITMAP) if bitmap >> rank & 1]
    runs: list[list[int]] = []
    for rank in ranks:
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def _values(values: list[int]) -> str:
    shown = " ".join(map(str, values[:_SHOWN]))
    return f"[{shown} … sum {sum(values)}]"
