"""Packets in virtual time as a back end: a deployment in, measurements out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from testbed import wire
from testbed.backends.links import shares
from testbed.backends.measurements import Measurements, PortCounts, of_ranks, span_s
from testbed.backends.packet import faults
from testbed.backends.packet.loop import Loop
from testbed.backends.packet.recorder import Recorder, simulation_for
from testbed.backends.packet.simulation import (
    SECOND,
    P4Calls,
    PortCounters,
    Simulation,
    TcpSettings,
    library,
)
from testbed.backends.packet.wiring import numbered, port_numbers, wire_up
from testbed.backends.recording import NOTHING, Recording
from testbed.compiler import BuildError
from testbed.deployment.deploy import Deployment
from testbed.deployment.errors import DeploymentError
from testbed.deployment.memory import allocate
from testbed.deployment.tasks import LONGEST_TICK_S, tasks
from testbed.experiment.fields import AUTO
from testbed.experiment.schema import Emulation
from testbed.hosts.aggregation import load
from testbed.protocols.allocation import Allocation
from testbed.protocols.events import Event
from testbed.switches import compile, events
from testbed.switches.compile import CompileError
from testbed.switches.entries import derive
from testbed.switches.native.build import build_library
from testbed.switches.native.embedded import EmbeddedSwitch
from testbed.switches.native.program import Unsupported
from testbed.switches.native.reader import read
from testbed.topology.addressing import Addressing
from testbed.topology.fabric import Fabric
from testbed.topology.framing import MOST_HEADERS, TCP_HEADERS, framing
from testbed.topology.paths import Routes

_LONGEST_HEADERS = 128

GATHER_S = 10e-6
"""How long a real host collects segments before it acknowledges them: interrupt moderation and
segment coalescing (GRO). The emulator's hosts do so for a tick."""

ENGINE_PACE = 100.0
"""Seconds of an engine's clock in a second of a real host. The engine's shortest timeout is 100 ms,
long enough for a busy machine in an emulation; that of a real host is then 1 ms, as SwitchML's
(Sapio et al., NSDI 2021, section 4)."""


def run(deployment: Deployment, log_dir: Path, recording: Recording = NOTHING) -> Measurements:
    """Run the jobs of ``deployment`` side by side in virtual time, and record into ``log_dir``.

    Raises DeploymentError if something cannot be run here, Stalled if ranks wait for ever,
    BrokenConnection if TCP gives up, SumMismatch if a worker received a wrong sum.
    """
    fabric, emulation = deployment.fabric, deployment.experiment.emulation
    carried, pace = _carried(emulation, fabric), _pace(emulation)
    number, addressing = numbered(fabric), Addressing(fabric)
    allocations = allocate([(job.plan, job.window) for job in deployment.jobs], fabric.slots)
    addresses = {node: addressing.ip(node) for node in fabric.nodes}
    uncarried = 4 * (fabric.values - carried)
    room = framing(fabric).frame - uncarried + _LONGEST_HEADERS
    tcp = tcp_settings(fabric, _dilation(emulation))
    with simulation_for(recording, len(fabric.nodes), room, tcp) as simulation:
        simulation.carry(MOST_HEADERS, uncarried)
        routes = _routes(deployment)
        wire_up(
            simulation,
            fabric,
            emulation.seed,
            float(emulation.scale),
            shares(emulation.loss, fabric),
            shares(emulation.duplication, fabric),
            _jitter(fabric),
            None if emulation.timers == "real" else _dilation(emulation),
            routes,
        )
        switches = _programs(simulation, deployment, allocations, carried, routes)
        loop = Loop(simulation, pace)
        for job, own in zip(deployment.jobs, allocations, strict=True):
            ranks = tasks(job, own, addresses, 1.0, emulation.seed, carried)
            if recording.timeline:
                ranks = [replace(rank, times_units=True) for rank in ranks]
            loop.add(ranks, [number[host] for host in job.plan.hosts])
        faults.schedule(
            emulation.faults, float(emulation.scale), loop, simulation, fabric, switches
        )
        with Recorder(
            recording, deployment, simulation, switches, allocations, log_dir
        ) as recorder:
            loop.run()
            outcomes, overflows = loop.outcomes(), _overflows(simulation, fabric)
            recorder.write_timeline(outcomes)
            recorder.write_packets()
        return Measurements(
            jobs=[
                replace(
                    of_ranks(
                        job,
                        own,
                        _events(switches.values(), job.number),
                        "native",
                        carried,
                    ),
                    notes=_notes(overflows, timeouts),
                )
                for job, own, timeouts in zip(
                    deployment.jobs, outcomes, loop.timeouts(), strict=True
                )
            ],
            carried={
                ends: float(counters.sent_bytes) for ends, counters in _ports(simulation, fabric)
            },
            seconds=span_s(outcome for own in outcomes for outcome in own),
            digests=simulation.digests(),
            ports={ends: _counts(counters) for ends, counters in _ports(simulation, fabric)},
            events={
                name: sum((_events([each], job.number) for job in deployment.jobs), Counter())
                for name, each in switches.items()
            },
            waited={
                name: counters.most_waiting
                for name, node in number.items()
                if (counters := simulation.inside(node)) is not None
            },
        )


def _counts(counters: PortCounters) -> PortCounts:
    return PortCounts(
        sent=counters.sent_frames,
        arrived=counters.sent_frames - counters.lost + counters.duplicated,
        dropped=counters.dropped,
        most_waiting=counters.most_waiting,
    )


def _routes(deployment: Deployment) -> Routes:
    """The flows of all jobs with a path of their own."""
    return {flow: route for job in deployment.jobs for flow, route in job.plan.routes.items()}


def _programs(
    simulation: Simulation,
    deployment: Deployment,
    allocations: Sequence[Sequence[Allocation]],
    carried: int,
    routes: Routes,
) -> dict[str, EmbeddedSwitch]:
    """The switches that sum, by name, each with the P4 program and its entries."""
    fabric, emulation = deployment.fabric, deployment.experiment.emulation
    number, addressing = numbered(fabric), Addressing(fabric)
    every = [each for own in allocations for each in own]
    summing = sorted({switch for each in every for switch in each.tree.switches})
    if not summing:
        return {}
    path = compile.program(emulation.p4_program, carried)
    program, built = read(path), build_library(path)
    made = {}
    for name in summing:
        switch = EmbeddedSwitch(program, built, emulation.seed)
        derive(name, fabric, addressing, every, emulation.seed, routes).install(switch)
        simulation.program(
            number[name],
            P4Calls(switch.attach, switch.process),
            round(fabric.capacity.get(name, 0)),
        )
        made[name] = switch
    return made


def _build(deployment: Deployment) -> tuple[str | None, int]:
    """What has to be compiled for a run: the P4 program, and the values in its packets."""
    emulation = deployment.experiment.emulation
    return emulation.p4_program, _carried(emulation, deployment.fabric)


def prepare(deployments: Iterable[Deployment]) -> None:
    """Check and compile before the first run. DeploymentError if something is impossible."""
    wanted = {_build(each) for each in deployments}
    try:
        for program, values in wanted:
            library()
            load(values)
            build_library(compile.program(program, values))
    except (BuildError, CompileError, Unsupported) as error:
        raise DeploymentError(f"backend: packet: {error}") from error


def _dilation(emulation: Emulation) -> float:
    """The factor by which the hosts' own times are shorter than those of real hosts."""
    if emulation.timers == "real":
        return 1.0
    return emulation.dilation if emulation.dilation != AUTO else 1.0


def _pace(emulation: Emulation) -> float:
    return ENGINE_PACE if emulation.timers == "real" else _dilation(emulation)


def _carried(emulation: Emulation, fabric: Fabric) -> int:
    """How many values a packet carries. A compiled program of the user's decides it itself."""
    compiled = emulation.p4_program is not None and not emulation.p4_program.endswith(".p4")
    return fabric.values if emulation.carried_values == "all" or compiled else wire.FEW


def tcp_settings(fabric: Fabric, dilation: float = 1.0) -> TcpSettings:
    """Linux's defaults, except for the least timeout of 10 ms, usual in data centres.

    With a ``dilation`` the kernel's times are as much shorter, as they are in the emulator.
    """

    def time(seconds: float) -> int:
        return round(seconds * SECOND / dilation)

    return TcpSettings(
        mss=framing(fabric).mss,
        overhead=TCP_HEADERS,
        initial_window=10,
        receive_window=3 << 20,
        queued_time=time(0.001),
        most_queued=4 << 20,
        least_timeout=time(0.01),
        longest_timeout=time(120),
        first_timeout=time(0.01),  # the handshake has measured the round trip
        acknowledge_delay=time(0.04),
        gather_time=time(GATHER_S) if dilation == 1 else time(LONGEST_TICK_S),
    )


def _jitter(fabric: Fabric) -> int:
    """The time of a full frame on the slowest link of a host: without any, hosts in step lose
    whole windows to one another (Floyd and Jacobson, 1991)."""
    slowest = min(fabric.link(host, fabric.tor_of(host)).rate for host in fabric.hosts)
    return round(framing(fabric).full_frame * 8 * SECOND / slowest)


def _events(switches: Iterable[EmbeddedSwitch], job: int) -> Counter[Event]:
    """What the switches counted for a job."""
    return sum((events.read(each, job) for each in switches), Counter())


def _ports(
    simulation: Simulation, fabric: Fabric
) -> Iterator[tuple[tuple[str, str], PortCounters]]:
    """The counters of every port, and the two ends of its link."""
    number = numbered(fabric)
    for name, ports in port_numbers(fabric).items():
        for neighbour, port in ports.items():
            yield (name, neighbour), simulation.port(number[name], port)


def _overflows(simulation: Simulation, fabric: Fabric) -> Counter[str]:
    """Packets that each queue dropped, by its link's two ends."""
    return Counter(
        {
            f"{name}-{neighbour}": counters.dropped
            for (name, neighbour), counters in _ports(simulation, fabric)
            if counters.dropped
        }
    )


def _notes(overflows: Counter[str], timeouts: int) -> str:
    notes = []
    if overflows:
        link, most = overflows.most_common(1)[0]
        notes.append(f"queues dropped {overflows.total()} packets, {link} {most} of them")
    if timeouts:
        notes.append(f"TCP timed out {timeouts} times")
    return "; ".join(notes)
