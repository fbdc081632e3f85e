"""Faults at given instants: links that are down or impaired, switches that lose their memory, hosts
that pause or die, packets of strangers."""

from __future__ import annotations

import random
import struct
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from testbed.backends.links import Shares, any_of, ends
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
    lost: Shares,
    doubled: Shares,
) -> None:
    """Make ``faults`` happen during the run of ``loop``; their times are multiplied by ``scale``.

    ``entries``: those of each of the ``switches``. ``lost``, ``doubled``: the shares of frames that
    links lose and deliver twice without a fault.

    Faults may overlap. A link is up once no fault takes it down, and a host continues once no fault
    pauses it. A link's impairments hit each frame independently of one another.
    """
    number, ports = numbered(fabric), port_numbers(fabric)
    downs: Counter[frozenset[str]] = Counter()  # of each link: the faults that it is down for
    pauses: Counter[str] = Counter()  # of each host
    impairing: defaultdict[tuple[str, str], list[Fault]] = defaultdict(list)  # each link

    def set_down(links: Sequence[tuple[str, str]], change: int) -> None:
        for link in links:
            downs[frozenset(link)] += change
            for here, there in (link, link[::-1]):
                is_down = downs[frozenset(link)] > 0
                simulation.set_down(number[here], ports[here][there], is_down)

    def pause(host: str, change: int) -> None:
        before = pauses[host] > 0
        pauses[host] += change
        if (pauses[host] > 0) != before:
            loop.pause(number[host], not before)

    def impair(link: tuple[str, str]) -> None:
        usual = lost.get(link, 0.0), doubled.get(link, 0.0)
        found = _together(*usual, impairing[link], scale)
        for here, there in (link, link[::-1]):
            simulation.impair(number[here], ports[here][there], found)

    def begin_impairing(link: tuple[str, str], fault: Fault) -> None:
        impairing[link].append(fault)
        impair(link)

    def end_impairing(link: tuple[str, str], fault: Fault) -> None:
        impairing[link].remove(fault)
        impair(link)

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
                at(fault.at, partial(begin_impairing, link, fault))
                if fault.until is not None:
                    at(fault.until, partial(end_impairing, link, fault))
                continue
            links = [link]
        elif fault.packet is not None:
            assert fault.host and fault.to
            frame = _frame(fabric, fault.host, fault.to, fault.port, bytes.fromhex(fault.packet))
            at(fault.at, partial(simulation.inject, number[fault.host], frame))
            continue
        elif fault.host is not None and fault.until is not None:
            at(fault.at, partial(pause, fault.host, 1))
            at(fault.until, partial(pause, fault.host, -1))
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
            at(fault.at, partial(set_down, links, 1))
        if fault.until is not None:
            at(fault.until, partial(set_down, links, -1))


def _together(loss: float, duplication: float, faults: Sequence[Fault], scale: float) -> Impairment:
    """What a link's usual shares and its faults do to a frame if each decides on its own."""
    delays = [fault.delay for fault in faults if fault.reordering]
    return Impairment(
        share(any_of([loss, *(fault.loss for fault in faults)])),
        share(any_of([duplication, *(fault.duplication for fault in faults)])),
        share(any_of(fault.corruption for fault in faults)),
        share(any_of(fault.reordering for fault in faults)),
        max(1, round(max(delays, default=0.0) * scale * SECOND)),
    )


def _frame(fabric: Fabric, host: str, to: str, port: int, payload: bytes) -> bytes:
    """A UDP packet of a host. The simulated routers do not look at Ethernet addresses or
    checksums."""
    addressing = Addressing(fabric)
    source, destination = (addressing.ip_number(end).to_bytes(4, "big") for end in (host, to))
    udp = struct.pack(">HHHH", port, port, 8 + len(payload), 0) + payload
    ip = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(udp), 0, 0x4000, 64, 17, 0)
    return bytes(12) + b"\x08\x00" + ip + source + destination + udp
