"""Packets in virtual time as a back end: a deployment in, measurements out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias

from testbed import wire
from testbed.backends.links import shares
from testbed.backends.measurements import (
    BrokenConnection,
    Measurements,
    PortCounts,
    Stalled,
    of_ranks,
    span_s,
)
from testbed.backends.outages import gone, missed
from testbed.backends.packet import faults
from testbed.backends.packet.loop import LONGEST_SILENCE, Loop
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
from testbed.backends.timeouts import engine_pace, least_tcp_timeout_s
from testbed.compiler import BuildError
from testbed.deployment.deploy import Deployment
from testbed.deployment.errors import DeploymentError
from testbed.deployment.memory import allocate
from testbed.deployment.tables import routes, tables
from testbed.deployment.tasks import LONGEST_TICK_S, tasks
from testbed.experiment.fields import AUTO
from testbed.experiment.schema import Emulation
from testbed.hosts.aggregation import load
from testbed.hosts.task import RankOutcome
from testbed.protocols.allocation import Allocation
from testbed.protocols.events import Event
from testbed.switches import compile, events
from testbed.switches.compile import CompileError
from testbed.switches.entries import SwitchEntries
from testbed.switches.native.build import build_library
from testbed.switches.native.embedded import EmbeddedSwitch
from testbed.switches.native.program import Program, Unsupported
from testbed.switches.native.reader import read
from testbed.topology.addressing import Addressing
from testbed.topology.fabric import Fabric
from testbed.topology.framing import MOST_HEADERS, TCP_HEADERS, framing

_LONGEST_HEADERS = 128

GATHER_S = 10e-6
"""Seconds for which a real host collects segments before it acknowledges them: interrupt moderation
and segment coalescing (GRO). The emulator's hosts do so for a tick."""

ENGINE_PACE = 100.0
"""Seconds of an engine's clock in a second of a real host. The engine's shortest timeout is 100 ms,
long enough for a busy machine in an emulation. A real host's is then 1 ms. SwitchML's released
configuration has 10 ms (microsoft/SwitchML, configs)."""


@dataclass(frozen=True)
class Assembled:
    """A run that has not begun: the fabric, its switches and the ranks of all jobs."""

    simulation: Simulation
    loop: Loop
    switches: Mapping[str, EmbeddedSwitch]
    allocations: Sequence[Sequence[Allocation]]


MakeSwitch: TypeAlias = Callable[[Program, Path, int], EmbeddedSwitch]


@contextmanager
def assembled(
    deployment: Deployment, recording: Recording = NOTHING, make: MakeSwitch = EmbeddedSwitch
) -> Iterator[Assembled]:
    """Build everything that ``deployment`` needs; ``make`` makes the switches that sum."""
    fabric, emulation = deployment.fabric, deployment.experiment.emulation
    few, pace = _carried(emulation, fabric), _pace(emulation)
    number, addressing = numbered(fabric), Addressing(fabric)
    allocations = allocate([(job.plan, job.window) for job in deployment.jobs], fabric.slots)
    addresses = {node: addressing.ip(node) for node in fabric.nodes}
    uncarried = 4 * (fabric.values - few)
    room = framing(fabric).frame - uncarried + _LONGEST_HEADERS
    tcp = tcp_settings(fabric, _dilation(emulation))
    with simulation_for(recording, len(fabric.nodes), room, tcp) as simulation:
        simulation.carry(MOST_HEADERS, uncarried)
        lost, doubled = shares(emulation.loss, fabric), shares(emulation.duplication, fabric)
        wire_up(
            simulation,
            fabric,
            emulation.seed,
            float(emulation.scale),
            lost,
            doubled,
            None if emulation.timers == "real" else _dilation(emulation),
            routes(deployment),
        )
        entries = tables(deployment)
        switches = _programs(simulation, deployment, entries, make)
        loop = Loop(simulation, pace, faults.first_fragment(emulation.faults))
        for job, own in zip(deployment.jobs, allocations, strict=True):
            ranks = tasks(job, own, addresses, 1.0, emulation.seed, few)
            if recording.timeline:
                ranks = [replace(rank, times_units=True) for rank in ranks]
            loop.add(ranks, [number[host] for host in job.plan.hosts])
        faults.schedule(
            emulation.faults,
            float(emulation.scale),
            loop,
            simulation,
            fabric,
            switches,
            entries,
            lost,
            doubled,
        )
        try:
            yield Assembled(simulation, loop, switches, allocations)
        finally:
            loop.close()


def run(deployment: Deployment, log_dir: Path, recording: Recording = NOTHING) -> Measurements:
    """Run the jobs of ``deployment`` side by side in virtual time, and record into ``log_dir``.

    Raises DeploymentError if something cannot be run here, Stalled if ranks wait for ever,
    BrokenConnection if TCP gives up, SumMismatch if a worker received a wrong sum.
    """
    emulation = deployment.experiment.emulation
    with assembled(deployment, recording) as made:
        with Recorder(
            recording, deployment, made.simulation, made.switches, made.allocations, log_dir
        ) as recorder:
            try:
                made.loop.run(_longest_silence(deployment))
            except (Stalled, BrokenConnection) as error:
                now_s = made.simulation.now / SECOND / float(emulation.scale)
                raise type(error)(f"{gone(emulation.faults, now_s)}{error}") from None
            outcomes = made.loop.outcomes()
            recorder.write_timeline(outcomes)
            recorder.write_packets()
        return _measured(deployment, made, outcomes)


def _longest_silence(deployment: Deployment) -> int:
    """How long ranks may wait for one another: picoseconds. All may wait for messages that share
    the slowest link."""
    slowest = min(link.rate for link in deployment.fabric.links)
    most = sum(
        len(job.plan.hosts) * max((unit.elements for unit in job.units), default=0)
        for job in deployment.jobs
    )
    return LONGEST_SILENCE + round(most * 4 * 8 * SECOND / slowest)


def _measured(
    deployment: Deployment, made: Assembled, outcomes: Sequence[Sequence[RankOutcome]]
) -> Measurements:
    fabric = deployment.fabric
    overflows = _overflows(made.simulation, fabric)
    emulation = deployment.experiment.emulation
    unseen = missed(emulation.faults, made.simulation.now / SECOND / float(emulation.scale))
    return Measurements(
        jobs=[
            replace(
                of_ranks(
                    job,
                    own,
                    _events(made.switches.values(), job.number),
                    "native",
                    carried(deployment),
                ),
                notes=_notes(overflows, timeouts, unseen),
            )
            for job, own, timeouts in zip(
                deployment.jobs, outcomes, made.loop.timeouts(), strict=True
            )
        ],
        carried={
            ends: float(counters.sent_bytes) for ends, counters in ports(made.simulation, fabric)
        },
        seconds=span_s(outcome for own in outcomes for outcome in own),
        digests=made.simulation.digests(),
        ports={ends: _counts(counters) for ends, counters in ports(made.simulation, fabric)},
        events={
            name: sum((_events([each], job.number) for job in deployment.jobs), Counter())
            for name, each in made.switches.items()
        },
        waited={
            name: counters.most_waiting
            for name, node in numbered(fabric).items()
            if (counters := made.simulation.inside(node)) is not None
        },
    )


def _counts(counters: PortCounters) -> PortCounts:
    return PortCounts(
        sent=counters.sent_frames,
        arrived=counters.sent_frames - counters.lost - counters.corrupted + counters.duplicated,
        dropped=counters.dropped,
        most_waiting=counters.most_waiting,
    )


def _programs(
    simulation: Simulation,
    deployment: Deployment,
    entries: Mapping[str, SwitchEntries],
    make: MakeSwitch,
) -> dict[str, EmbeddedSwitch]:
    """The switches that sum, by name, each with the P4 program and its entries."""
    fabric, emulation = deployment.fabric, deployment.experiment.emulation
    if not entries:
        return {}
    number = numbered(fabric)
    path = compile.program(emulation.p4_program, carried(deployment))
    program, built = _program(path, path.stat().st_mtime_ns)
    made = {}
    for name, told in entries.items():
        switch = make(program, built, emulation.seed)
        told.install(switch)
        simulation.program(
            number[name],
            P4Calls(switch.attach, switch.process),
            _adding(fabric, name),
        )
        made[name] = switch
    return made


def _adding(fabric: Fabric, switch: str) -> int:
    """How long a switch takes to add the values of a packet, picoseconds; 0 without a limit."""
    capacity = fabric.capacity.get(switch)
    return round(32 * fabric.values * SECOND / capacity) if capacity else 0


@lru_cache
def _program(path: Path, changed: int) -> tuple[Program, Path]:
    """The compiled program at ``path``, last changed at ``changed``, and the library made of it."""
    return read(path), build_library(path)


def _build(deployment: Deployment) -> tuple[str | None, int]:
    """What has to be compiled for a run: the P4 program, and the values in its packets."""
    emulation = deployment.experiment.emulation
    return emulation.p4_program, _carried(emulation, deployment.fabric)


def prepare(deployments: Iterable[Deployment]) -> None:
    """Check and compile before the first run. Raises DeploymentError if something is impossible."""
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
    if emulation.timers == "real":
        return ENGINE_PACE
    return engine_pace(_dilation(emulation)) * _dilation(emulation)


def carried(deployment: Deployment) -> int:
    """How many values a packet of a run carries."""
    return _carried(deployment.experiment.emulation, deployment.fabric)


def _carried(emulation: Emulation, fabric: Fabric) -> int:
    """How many values a packet carries. If the user gives a compiled program, that program
    decides."""
    compiled = emulation.p4_program is not None and not emulation.p4_program.endswith(".p4")
    return fabric.values if emulation.carried_values == "all" or compiled else wire.FEW


def tcp_settings(fabric: Fabric, dilation: float = 1.0) -> TcpSettings:
    """Linux's defaults, except for the minimum timeout of 10 ms, which is usual in data centres.

    With a ``dilation``, times are shorter by that factor, as in the emulator, except for the
    minimum timeout (`timeouts`).
    """

    def time(seconds: float) -> int:
        return round(seconds * SECOND / dilation)

    least_timeout = time(least_tcp_timeout_s(dilation))
    return TcpSettings(
        mss=framing(fabric).mss,
        overhead=TCP_HEADERS,
        initial_window=10,
        receive_window=3 << 20,
        queued_time=time(0.001),
        most_queued=4 << 20,
        least_timeout=least_timeout,
        longest_timeout=time(120),
        first_timeout=least_timeout,  # the handshake has measured the round trip
        timer_slack=time(0.002),
        # Linux 6.7 and later keep it a tick below the minimum timeout, so that nothing is
        # retransmitted while its acknowledgement waits.
        acknowledge_delay=time(min(0.04, least_tcp_timeout_s(dilation) - LONGEST_TICK_S)),
        gather_time=time(GATHER_S) if dilation == 1 else time(LONGEST_TICK_S),
    )


def _events(switches: Iterable[EmbeddedSwitch], job: int) -> Counter[Event]:
    """What the switches counted for a job."""
    return sum((events.read(each, job) for each in switches), Counter())


def ports(simulation: Simulation, fabric: Fabric) -> Iterator[tuple[tuple[str, str], PortCounters]]:
    """The counters of every port, and the two ends of its link."""
    number = numbered(fabric)
    for name, own in port_numbers(fabric).items():
        for neighbour, port in own.items():
            yield (name, neighbour), simulation.port(number[name], port)


def held(
    simulation: Simulation, fabric: Fabric
) -> Iterator[tuple[tuple[str, str], PortCounters, int]]:
    """Like `ports`, with the number of frames that each port's link has not delivered yet."""
    number, own = numbered(fabric), port_numbers(fabric)
    for (name, neighbour), counters in ports(simulation, fabric):
        yield (name, neighbour), counters, simulation.held(number[name], own[name][neighbour])


def _overflows(simulation: Simulation, fabric: Fabric) -> Counter[str]:
    """Packets that each queue dropped, by its link's two ends."""
    return Counter(
        {
            f"{name}-{neighbour}": counters.dropped
            for (name, neighbour), counters in ports(simulation, fabric)
            if counters.dropped
        }
    )


def _notes(overflows: Counter[str], timeouts: int, unseen: str) -> str:
    notes = [unseen] if unseen else []
    if overflows:
        link, most = overflows.most_common(1)[0]
        notes.append(f"queues dropped {overflows.total()} packets, {link} {most} of them")
    if timeouts:
        notes.append(f"TCP timed out {timeouts} times")
    return "; ".join(notes)
