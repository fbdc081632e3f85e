"""Packets in virtual time as a back end: a deployment in, measurements out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from testbed.backends.measurements import JobMeasurements, Measurements, SumMismatch
from testbed.backends.packet.loop import Loop
from testbed.backends.packet.simulation import SECOND, P4Calls, Simulation, TcpSettings
from testbed.backends.packet.wiring import numbered, wire_up
from testbed.deployment.deploy import DeployedJob, Deployment
from testbed.deployment.errors import DeploymentError
from testbed.deployment.memory import allocate
from testbed.deployment.tasks import tasks
from testbed.hosts.task import RankOutcome
from testbed.protocols.allocation import Allocation
from testbed.protocols.events import Event
from testbed.switches import events
from testbed.switches.compile import (
    PROGRAMS,
    CompileError,
    check_interface,
    compile_user_program,
)
from testbed.switches.entries import derive
from testbed.switches.native.embedded import EmbeddedSwitch
from testbed.topology.addressing import Addressing
from testbed.topology.fabric import Fabric
from testbed.topology.framing import framing

_LONGEST_HEADERS = 128


def run(deployment: Deployment, log_dir: Path, captures: Sequence[str] = ()) -> Measurements:
    """Run the jobs of ``deployment`` side by side in virtual time.

    DeploymentError says what cannot be run, Stalled that ranks wait for ever, SumMismatch that a
    worker received a wrong sum.
    """
    fabric, emulation = deployment.fabric, deployment.experiment.emulation
    if captures:
        raise DeploymentError(
            f"--pcap {captures[0]}: backend: packet writes no captures; use backend: emulate"
        )
    if emulation.target == "bmv2":
        raise DeploymentError(
            "emulation.target: found bmv2, wanted native or auto with backend: packet, which runs"
            " the program compiled to C"
        )
    number, addressing = numbered(fabric), Addressing(fabric)
    allocations = allocate([(job.plan, job.window) for job in deployment.jobs], fabric.slots)
    addresses = {node: addressing.ip(node) for node in fabric.nodes}
    room = framing(fabric).frame + _LONGEST_HEADERS
    with Simulation(len(fabric.nodes), room, tcp_settings(fabric)) as simulation:
        wire_up(simulation, fabric, emulation.seed, emulation.loss, _jitter(fabric))
        switches = _programs(simulation, deployment, allocations)
        loop = Loop(simulation)
        for job, own in zip(deployment.jobs, allocations, strict=True):
            told = tasks(job, own, addresses, 1.0, emulation.seed)
            loop.add(told, [number[host] for host in job.plan.hosts])
        loop.run()
        outcomes = loop.outcomes()
        every = [each for own in outcomes for outcome in own for each in outcome.iterations]
        carried = {
            (name, neighbour): float(simulation.port(number[name], index).sent_bytes)
            for name in fabric.nodes
            for index, neighbour in enumerate(_in_order_of_links(fabric, name))
        }
        return Measurements(
            jobs=[
                _measured(job, own, [events.read(each, job.number) for each in switches])
                for job, own in zip(deployment.jobs, outcomes, strict=True)
            ],
            carried=carried,
            seconds=max(each.end for each in every) - min(each.start for each in every),
        )


def _programs(
    simulation: Simulation, deployment: Deployment, allocations: Sequence[Sequence[Allocation]]
) -> list[EmbeddedSwitch]:
    """The switches that sum, each with the P4 program and its entries."""
    fabric, emulation = deployment.fabric, deployment.experiment.emulation
    number, addressing = numbered(fabric), Addressing(fabric)
    every = [each for own in allocations for each in own]
    made = []
    for name in sorted({switch for each in every for switch in each.tree.switches}):
        switch = EmbeddedSwitch(_program(emulation.p4_program, fabric.values), emulation.seed)
        derive(name, fabric, addressing, every, emulation.seed).install(switch)
        simulation.program(number[name], P4Calls(switch.attach, switch.process))
        made.append(switch)
    return made


def _program(wanted: str | None, values: int) -> Path:
    """The compiled program of an experiment for packets of ``values``. DeploymentError if none."""
    if wanted is None:
        return PROGRAMS[values]
    path = Path(wanted)
    try:
        if path.suffix == ".p4":
            path = compile_user_program(path, values)
        check_interface(path, values)
    except CompileError as error:
        raise DeploymentError(f"p4_program {wanted}: {error}") from error
    return path


def tcp_settings(fabric: Fabric) -> TcpSettings:
    """Linux's defaults, but for the least timeout, which is that of data centres (10 ms)."""
    return TcpSettings(
        mss=fabric.mtu - 52,
        overhead=66,
        initial_window=10,
        receive_window=3 << 20,
        small_queue=2 * framing(fabric).full_frame,
        least_timeout=SECOND // 100,
        longest_timeout=120 * SECOND,
        first_timeout=SECOND,
        acknowledge_delay=SECOND // 25,
    )


def _jitter(fabric: Fabric) -> int:
    """The time of a full frame on the slowest link of a host: without any, hosts in step lose
    whole windows to one another (Floyd and Jacobson, 1991)."""
    slowest = min(fabric.link(host, fabric.tor_of(host)).rate for host in fabric.hosts)
    return round(framing(fabric).full_frame * 8 * SECOND / slowest)


def _in_order_of_links(fabric: Fabric, node: str) -> list[str]:
    return [
        link.b if link.a == node else link.a for link in fabric.links if node in (link.a, link.b)
    ]


def _measured(
    job: DeployedJob, outcomes: Sequence[RankOutcome], counted: Sequence[Counter[Event]]
) -> JobMeasurements:
    if wrong := {each.rank: each.wrong for each in outcomes if each.wrong}:
        ranks = ", ".join(f"rank {rank}: {count}" for rank, count in wrong.items())
        raise SumMismatch(f"job {job.number} ({job.system.name}): values that differ: {ranks}")
    workers = outcomes[: job.plan.workers]
    values = (job.job.iterations + job.job.warmup) * job.gradient_bytes // 4
    return JobMeasurements(
        iterations=[each.iterations for each in workers],
        verified=all(each.checked == values for each in workers),
        retransmitted=sum(each.retransmitted for each in outcomes),
        collisions=max(each.collisions for each in outcomes),
        overflows=max(each.overflows for each in outcomes),
        quantisation_error=outcomes[0].quantisation_error,
        events=sum(counted, Counter()),
        switch_target="native" if job.plan.trees else "",
    )
