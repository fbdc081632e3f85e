"""The emulator as a back end: a deployment in, measurements out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from testbed.backends.emulation import targets
from testbed.backends.emulation.faults import Faults
from testbed.backends.emulation.run import Conditions, Observation, emulate
from testbed.backends.links import shares
from testbed.backends.measurements import Measurements, of_ranks, span_s
from testbed.backends.recording import NOTHING, Recording
from testbed.backends.timeouts import engine_pace
from testbed.deployment.deploy import Deployment
from testbed.deployment.memory import allocate
from testbed.deployment.tables import routes
from testbed.deployment.tasks import tasks
from testbed.topology.addressing import Addressing

PATIENCE = 10
"""A run may last this many times its expected duration before it is aborted."""
_STOPS_S, _GONE_S = 60.0, 10.0
"""Seconds added to that. A machine may stop for seconds. Once a host or a link is gone for good,
few runs end at all, and the user waits for each."""


@dataclass(frozen=True)
class Emulated(Measurements):
    """Measurements, with the observation of the machine on which the run took place."""

    observation: Observation | None = None


def run(deployment: Deployment, log_dir: Path, recording: Recording = NOTHING) -> Emulated:
    """Run the jobs of ``deployment`` side by side, and check what every worker received.

    The captures of ``recording`` go to ``log_dir``. Raises SumMismatch, RankFailed, EmulationError
    or DeploymentError.
    """
    observation = observe(deployment, log_dir, recording)
    emulation, fabric = deployment.experiment.emulation, deployment.fabric
    target = targets.choose(emulation.target)
    jobs, first = [], 0
    notes = observation.notes
    for job in deployment.jobs:
        outcomes = observation.outcomes[first : first + len(job.plan.hosts)]
        first += len(job.plan.hosts)
        found = of_ranks(job, outcomes, observation.events.get(job.number, Counter()), target)
        tcp = sum(observation.packets.tcp_resent[host] for host in set(job.plan.hosts))
        jobs.append(replace(found, retransmitted=(found.retransmitted or 0) + tcp, notes=notes))
    sent = observation.packets.sent_bytes
    return Emulated(
        jobs=jobs,
        carried={
            ends: float(sent[Addressing.interface(*ends)])
            for link in fabric.links
            for ends in ((link.a, link.b), (link.b, link.a))
        },
        seconds=span_s(observation.outcomes),
        dilation=emulation.dilation,
        observation=observation,
    )


def observe(deployment: Deployment, log_dir: Path, recording: Recording = NOTHING) -> Observation:
    """Run the jobs side by side. Raises RankFailed or EmulationError if they do not finish."""
    emulation, fabric, jobs = deployment.experiment.emulation, deployment.fabric, deployment.jobs
    allocations = allocate([(job.plan, job.window) for job in jobs], fabric.slots)
    target, program = (
        targets.choose(emulation.target),
        targets.program(emulation.p4_program, fabric.values),
    )
    clock = emulation.dilation * float(emulation.scale)
    faults = Faults(emulation.faults, clock)
    last_s = clock * max((each.until or each.at for each in emulation.faults), default=0.0)
    patience_s = _GONE_S if any(each.lasts for each in emulation.faults) else _STOPS_S
    log_dir.mkdir(parents=True, exist_ok=True)
    # Only switches that sum for some job need the P4 program; the others route in the kernel.
    summing = {switch for own in allocations for each in own for switch in each.tree.switches}
    return emulate(
        fabric,
        {switch: targets.make(target, log_dir / f"{switch}.log", program) for switch in summing},
        [each for own in allocations for each in own],
        lambda network: [
            replace(
                task,
                engine_pace=engine_pace(emulation.dilation),
                burst=min(task.burst, network.superframe),
            )
            for job, own in zip(jobs, allocations, strict=True)
            for task in tasks(
                job,
                own,
                {node: network.addressing.ip(node) for node in fabric.nodes},
                emulation.dilation,
                emulation.seed,
            )
        ],
        Conditions(
            emulation.dilation,
            emulation.seed,
            routes(deployment),
            shares(emulation.loss, fabric),
            shares(emulation.duplication, fabric),
            {link: log_dir / f"{link}.pcap" for link in recording.captures},
            faults,
        ),
        timeout=last_s
        + patience_s
        + PATIENCE * emulation.dilation * max(job.expected_end_s for job in jobs),
    )
