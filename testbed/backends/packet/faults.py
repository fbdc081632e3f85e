"""Faults at given instants: links down, switches that lose their memory, hosts that die."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from testbed.backends.links import ends
from testbed.backends.packet.loop import Loop
from testbed.backends.packet.simulation import SECOND, Simulation
from testbed.backends.packet.wiring import numbered, port_numbers
from testbed.experiment.schema import Fault
from testbed.switches.native.embedded import EmbeddedSwitch
from testbed.topology.fabric import Fabric


def schedule(
    faults: Sequence[Fault],
    scale: float,
    loop: Loop,
    simulation: Simulation,
    fabric: Fabric,
    switches: Mapping[str, EmbeddedSwitch],
) -> None:
    """Let ``faults`` happen during the run of ``loop``; their times are multiplied by ``scale``."""
    number, ports = numbered(fabric), port_numbers(fabric)

    def set_down(links: Sequence[tuple[str, str]], is_down: bool) -> None:
        for a, b in links:
            for here, there in ((a, b), (b, a)):
                simulation.set_down(number[here], ports[here][there], is_down)

    def at(seconds: float, action: Callable[[], None]) -> None:
        loop.at(round(seconds * scale * SECOND), action)

    for fault in faults:
        if fault.link is not None:
            links = [ends(fault.link, fabric)]
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
