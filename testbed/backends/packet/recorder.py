"""Records what was asked for of a run in virtual time, in the directory of the cell's logs."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType

from testbed.backends.links import ends
from testbed.backends.packet.look import Look
from testbed.backends.packet.series import SampledSimulation, Series
from testbed.backends.packet.simulation import SECOND, Simulation, TcpSettings
from testbed.backends.packet.timeline import Timeline
from testbed.backends.packet.wiring import numbered, port_numbers
from testbed.backends.recording import Recording
from testbed.deployment.deploy import Deployment
from testbed.deployment.errors import DeploymentError
from testbed.hosts.task import RankOutcome
from testbed.protocols.allocation import Allocation
from testbed.results import TIMELINE
from testbed.switches.control import ControlError
from testbed.switches.native.embedded import EmbeddedSwitch
from testbed.switches.occupancy import Occupancy
from testbed.topology.addressing import Addressing
from testbed.topology.framing import framing

SERIES, PACKETS = "series.csv", "packets.csv"
_PAUSE = 10
"""A pause ends a spell if this many full frames fit into it."""


def simulation_for(
    recording: Recording, nodes: int, data_room: int, tcp: TcpSettings
) -> Simulation:
    """A simulation that supports ``recording``."""
    if recording.series_s is None:
        return Simulation(nodes, data_room, tcp)
    interval = max(1, round(recording.series_s * SECOND))
    return SampledSimulation(nodes, data_room, tcp, interval)


class Recorder:
    """A context around a run of ``simulation``, whose fabric is complete."""

    def __init__(
        self,
        recording: Recording,
        deployment: Deployment,
        simulation: Simulation,
        switches: Mapping[str, EmbeddedSwitch],
        allocations: Sequence[Sequence[Allocation]],
        log_dir: Path,
    ) -> None:
        self._recording, self._deployment, self._simulation = recording, deployment, simulation
        self._switches, self._log_dir = switches, log_dir
        self._allocations = [each for own in allocations for each in own]
        fabric = deployment.fabric
        self._number = numbered(fabric)
        self._port = port_numbers(fabric)
        self._ports = [(here, to) for here, ports in self._port.items() for to in ports]
        self._open = ExitStack()
        self._look: Look | None = None

    def __enter__(self) -> Recorder:
        try:
            if self._recording != Recording():
                self._begin()
        except OSError as error:
            self._open.close()
            raise DeploymentError(f"{error.filename}: {error.strerror}") from error
        return self

    def _begin(self) -> None:
        recording, fabric = self._recording, self._deployment.fabric
        self._log_dir.mkdir(parents=True, exist_ok=True)
        self._look = look = self._open.enter_context(Look(self._simulation, len(self._ports)))
        for link in recording.captures:
            node, neighbour = ends(link, fabric)
            port = self._port[node][neighbour]
            look.capture(self._number[node], port, self._log_dir / f"{link}.pcap")
        if recording.timeline:
            look.record(_PAUSE * framing(fabric).full_frame)
        if recording.packets is not None:
            look.list(*recording.packets)
        if isinstance(self._simulation, SampledSimulation):
            addressing = Addressing(fabric)
            hosts = {addressing.ip_number(host): host for host in fabric.hosts}
            path, nodes = self._log_dir / SERIES, list(fabric.nodes)
            series = Series(path, look, self._ports, nodes, hosts, self._occupancies())
            self._simulation.sample_with(self._open.enter_context(series), look)

    def _occupancies(self) -> dict[str, Occupancy]:
        found = {}
        for name, switch in self._switches.items():
            with suppress(ControlError):  # a user's program may have other registers
                found[name] = Occupancy(switch, name, self._allocations)
        return found

    def write_packets(self) -> None:
        """Write the list of packets of a run that has ended, if it was asked for."""
        if self._recording.packets is None or self._look is None:
            return
        names = list(self._number)
        addressing = Addressing(self._deployment.fabric)
        by_address = {addressing.ip_number(name): name for name in names}
        with (self._log_dir / PACKETS).open("w", newline="") as file:
            table = csv.writer(file, lineterminator="\n")
            table.writerow(("packet", "time_s", "link", "bytes", "protocol", "flow"))
            for each in self._look.listed():
                source, to = (
                    f"{by_address.get(address, address)}:{port}"
                    for address, port in (each.source, each.to)
                )
                link = ">".join(names[node] for node in each.ends)
                protocol = {6: "TCP", 17: "UDP"}[each.protocol]
                at = f"{each.at_s:.12g}"
                table.writerow((each.number, at, link, each.bytes, protocol, f"{source}>{to}"))

    def write_timeline(self, outcomes: Sequence[Sequence[RankOutcome]]) -> None:
        """Write the timeline of a run that has ended, if it was asked for."""
        if not self._recording.timeline or self._look is None:
            return
        timeline, look = Timeline(), self._look
        for job, own in zip(self._deployment.jobs, outcomes, strict=True):
            timeline.job(job, own)
        timeline.links(
            {
                f"{name}>{to}": look.port(self._number[name], port)
                for name, ports in self._port.items()
                for to, port in ports.items()
            }
        )
        timeline.switches({name: look.switch(self._number[name]) for name in self._switches})
        if isinstance(self._simulation, SampledSimulation) and self._simulation.series is not None:
            timeline.counters(self._simulation.series.lines())
        timeline.write(self._log_dir / TIMELINE, self._deployment.experiment.emulation.scale)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._open.__exit__(kind, error, trace)
