"""Verdicts as text: a table, and each counterexample packet by packet. Or counterexamples as a
capture."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path

from scapy.layers.l2 import Ether
from scapy.packet import Packet
from scapy.utils import wrpcap

from testbed.experiment.findings import counted
from testbed.studies.conform.scene import FABRIC, NAMES, SWITCH, Frame, Place
from testbed.studies.conform.traffic import seen
from testbed.studies.conform.trial import Counterexample, Exchange, Verdict
from testbed.switches.decode import line

_FOLLOWS = ("chksum", "dst", "bitmap")
"""Fields that differ whenever another one does, or that the lines above show (addresses and
bits)."""
_BETWEEN_RULES_S = 100
"""Seconds between the packets of two rules in a capture. Packets of the same rule are a second
apart."""


def row(verdict: Verdict) -> str:
    """A line of the table of rules."""
    found = verdict.counterexample
    said = "kept" if found is None else f"BROKEN in {counted(len(found.steps), 'packet')}"
    return f"{verdict.rule.name:<11} {said:<20} {verdict.rule.says}"


def counterexamples(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """For each broken rule its packets, or the name of a rule whose packets already show it."""
    shown: dict[str, str] = {}
    for verdict in verdicts:
        if verdict.counterexample is None:
            continue
        text = _packet_by_packet(verdict.counterexample)
        first = shown.setdefault(text, verdict.rule.name)
        heading = f"{verdict.rule.name}: {verdict.rule.says}"
        if first != verdict.rule.name:
            yield f"{heading}\n  broken by the packets shown for {first}"
        else:
            yield f"{heading}\n{text}"


def capture(path: Path, verdicts: Sequence[Verdict]) -> None:
    """Write all counterexamples as a capture: what arrived, and what the program sent. Raises
    OSError if the file cannot be written."""
    packets = []
    broken = (each.counterexample for each in verdicts if each.counterexample is not None)
    for rule, found in enumerate(broken):
        for second, exchange in enumerate(found.exchanges):
            at = rule * _BETWEEN_RULES_S + second
            for place, (_, frame) in enumerate((exchange.arrived, *exchange.found)):
                packet = Ether(frame)
                packet.time = at + place / 10
                packets.append(packet)
    wrpcap(str(path), packets)


def _packet_by_packet(found: Counterexample) -> str:
    lines = [*_surroundings(found)]
    for number, (step, exchange) in enumerate(zip(found.steps, found.exchanges, strict=True), 1):
        again = " again" if step in found.steps[: number - 1] else ""
        lines.append(f"  {number:>2}  {_line(exchange.arrived[1])}{again}")
        last = number == len(found.steps)
        if not last:
            lines += [f"        leaves: {each}" for each in _sorted_lines(exchange.found)]
    lines += _difference(found.exchanges[-1], found)
    return "\n".join(lines)


def _surroundings(found: Counterexample) -> Iterator[str]:
    """The trees that take part, in words."""
    places = found.setting.scene.places
    for name in dict.fromkeys(step.place for step in found.steps if step.place):
        yield f"  {_tree(places[name])}"


def _tree(place: Place) -> str:
    allocation = place.allocation
    above = "is the root" if place.parent is None else f"sends to {place.parent}"
    memory = f"slots 0 to {allocation.slots - 1}" + (
        ", shared by all trees" if place.tree.protocol.shares_slots else ""
    )
    return (
        f"tree {allocation.number}: {SWITCH} sums {', '.join(place.children)} and {above}; {memory}"
    )


def _difference(last: Exchange, found: Counterexample) -> Iterator[str]:
    """What the program sent for the last packet, and what it should have sent."""
    if found.ended:
        yield from textwrap.wrap(
            f"the switch ended: {found.ended}", 100, initial_indent=" " * 8,
            subsequent_indent=" " * 10,
        )  # fmt: skip
        return
    lanes = found.setting.scene.lanes
    ours, theirs = seen(last.wanted, lanes), seen(last.found, lanes)
    for heading, frames, other in (
        ("found ", last.found, ours),
        ("wanted", last.wanted, theirs),
    ):
        differing = [frame for frame in frames if seen([frame], lanes)[0] not in other]
        same = len(frames) - len(differing)
        for each in _sorted_lines(differing):
            yield f"        {heading}: {each}"
        if not frames:
            yield f"        {heading}: nothing leaves"
        elif not differing:
            yield f"        {heading}: {counted(same, 'packet')}, and no more of these"
    fields = _fields(last, lanes)
    if fields:
        yield f"        they differ in {fields}"


def _fields(last: Exchange, lanes: int) -> str:
    """The fields in which the two packets differ; empty if more than one packet of a side
    differs."""
    found, wanted = ({*seen(each, lanes)} for each in (last.found, last.wanted))
    if len(found - wanted) != 1 or len(wanted - found) != 1:
        return ""
    (theirs,), (ours,) = found - wanted, wanted - found
    named = [] if theirs[0] == ours[0] else [f"port (found {theirs[0]}, wanted {ours[0]})"]
    a: Packet = Ether(theirs[1])
    b: Packet = Ether(ours[1])
    while a and b and type(a) is type(b):
        names = [name for name in a.fields if a.fields[name] != b.fields.get(name)]
        for name in names:
            if name not in _FOLLOWS or (len(names) == 1 and not named):
                named.append(f"{a.name}.{name}{_values(a.fields[name], b.fields.get(name))}")
        a, b = a.payload, b.payload
    return ", ".join(named)


def _values(one: object, other: object) -> str:
    if isinstance(one, list) and isinstance(other, list):
        pairs = [(at, x, y) for at, (x, y) in enumerate(zip(one, other, strict=False)) if x != y]
        if not pairs:
            return ""
        at, x, y = pairs[0]
        return f"[{at}] (found {x}, wanted {y}; {len(pairs)} of {len(other)} are wrong)"
    return f" (found {one}, wanted {other})"


def _sorted_lines(frames: Sequence[Frame]) -> list[str]:
    return [f"{_line(frame)} at {_neighbour(port)}" for port, frame in sorted(frames)]


def _neighbour(port: int) -> str:
    neighbours = FABRIC.neighbours(SWITCH)
    known = 1 <= port <= len(neighbours)
    return f"the port to {neighbours[port - 1]}" if known else f"port {port}"


def _line(frame: bytes) -> str:
    return line(Ether(frame), NAMES)
