"""Faults at given instants: links that are down or impaired, switches that lose their memory, hosts
that pause or die, packets of strangers."""

from __future__ import annotations

import random
import struct
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from testbed.backends.links import ends
from testbed.backends.packet.loop import Loop
from testbed.backends.packet.simulation import SECOND, Impairment, Simulation
from testbed.backends.packet.wiring import numbered, port_numbers, share
from testbed.experiment.schema import Fault
from testbed.switches.entries import SwitchEntries
from testbed.switches.native.embedded import EmbeddedSwitch
from testbed.topology.addressing import Addressing
from testbed.topology.fabric import Fabric

_SEQUENCES = 1 << 32


def first_fragment(faults: Sequence[Fault]) -> int:
    """The number of each tree's first fragment."""
    return next((_SEQUENCES - fault.wrap for fault in faults if fault.wrap is not None), 0)


def schedule(
    faults: Sequence[Fault],
    scale: float,
    loop: Loop,
    simulation: Simulation,
    fabric: Fabric,
    switches: Mapping[str, EmbeddedSwitch],
    entries: Mapping[str, SwitchEntries],
    impairments: Mapping[tuple[str, str], Impairment],
) -> None:
    """Make ``faults`` happen during the run of ``loop``; their times are multiplied by ``scale``.

    ``entries``: those of each of the ``switches``. ``impairments``: what each link does to frames
    before and after a fault.
    """
    number, ports = numbered(fabric), port_numbers(fabric)

    def set_down(links: Sequence[tuple[str, str]], is_down: bool) -> None:
        for a, b in links:
            for here, there in ((a, b), (b, a)):
                simulation.set_down(number[here], ports[here][there], is_down)

    def impair(link: tuple[str, str], impairment: Impairment) -> None:
        for here, there in (link, link[::-1]):
            simulation.impair(number[here], ports[here][there], impairment)

    restarts: Counter[str] = Counter()  # of each switch

    def restart(name: str) -> None:
        restarts[name] += 1
        switches[name].restart()

    def tell(name: str, count: int, step: Callable[[EmbeddedSwitch], None]) -> None:
        if restarts[name] == count:  # else it has lost its tables again, and is told anew
            step(switches[name])

    def tell_late(name: str, fault: Fault) -> None:
        """Restart a switch, and install its entries one by one, in an order drawn with the fault's
        seed."""
        assert fault.until is not None
        restart(name)
        steps = entries[name].steps()
        random.Random(fault.tables).shuffle(steps)
        lasts = round((fault.until - fault.at) * scale * SECOND)
        for place, step in enumerate(steps, start=1):
            instant = simulation.now + lasts * place // len(steps)
            loop.at(instant, partial(tell, name, restarts[name], step))

    def at(seconds: float, action: Callable[[], None]) -> None:
        loop.at(round(seconds * scale * SECOND), action)

    for fault in faults:
        if fault.link is not None:
            link = ends(fault.link, fabric)
            if fault.impairs:
                at(fault.at, partial(impair, link, _impairment(fault, scale)))
                if fault.until is not None:
                    at(fault.until, partial(impair, link, impairments[link]))
                continue
            links = [link]
        elif fault.packet is not None:
            assert fault.host and fault.to
            frame = _frame(fabric, fault.host, fault.to, fault.port, bytes.fromhex(fault.packet))
            at(fault.at, partial(simulation.inject, number[fault.host], frame))
            continue
        elif fault.host is not None and fault.until is not None:
            at(fault.at, partial(loop.pause, number[fault.host], True))
            at(fault.until, partial(loop.pause, number[fault.host], False))
            continue
        elif fault.tables is not None:
            if fault.switch is not None and fault.switch in switches:
                at(fault.at, partial(tell_late, fault.switch, fault))
            continue
        elif fault.wrap is not None:
            continue
        else:
            node = fault.switch or fault.host or ""
            links = [(node, neighbour) for neighbour in fabric.neighbours(node)]
        if fault.host is not None:
            at(fault.at, partial(loop.end_ranks, number[fault.host]))
        if fault.switch is not None and fault.switch in switches:
            at(fault.at, switches[fault.switch].forget)
        if fault.switch is None or fault.until is not None:
            at(fault.at, partial(set_down, links, True))
        if fault.until is not None:
            at(fault.until, partial(set_down, links, False))


def _impairment(fault: Fault, scale: float) -> Impairment:
    asked = (fault.loss, fault.duplication, fault.corruption, fault.reordering)
    shares = [share(each or 0.0) for each in asked]
    return Impairment(*shares, max(1, round(fault.delay * scale * SECOND)))


def _frame(fabric: Fabric, host: str, to: str, port: int, payload: bytes) -> bytes:
    """A UDP packet of a host. The simulated routers do not look at Ethernet addresses or
    checksums."""
    addressing = Addressing(fabric)
    source, destination = (addressing.ip_number(end).to_bytes(4, "big") for end in (host, to))
    udp = struct.pack(">HHHH", port, port, 8 + len(payload), 0) + payload
    ip = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(udp), 0, 0x4000, 64, 17, 0)
    return bytes(12) + b"\x08\x00" + ip + source + destination + udp
