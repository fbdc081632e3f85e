"""The emulator as a back end: a deployment in, measurements out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from testbed.backends.emulation import targets
from testbed.backends.emulation.run import Conditions, Observation, emulate
from testbed.backends.measurements import JobMeasurements, Measurements, SumMismatch
from testbed.deployment.deploy import DeployedJob, Deployment
from testbed.deployment.memory import allocate
from testbed.deployment.tasks import tasks
from testbed.hosts.task import RankOutcome
from testbed.topology.addressing import Addressing

PATIENCE = 10
"""How many times its expected duration a run may last before it is aborted."""


@dataclass(frozen=True)
class Emulated(Measurements):
    """Measurements, with the observation of the machine that carried the run."""

    observation: Observation | None = None


def run(deployment: Deployment, log_dir: Path, captures: Sequence[str] = ()) -> Emulated:
    """Run the jobs of ``deployment`` side by side, and check what every worker received.

    ``captures`` are links whose packets go to ``log_dir``. Raises SumMismatch, RankFailed,
    EmulationError or DeploymentError.
    """
    observation = observe(deployment, log_dir, captures)
    emulation, fabric = deployment.experiment.emulation, deployment.fabric
    target = targets.choose(emulation.target)
    jobs, first = [], 0
    for job in deployment.jobs:
        outcomes = observation.outcomes[first : first + len(job.plan.hosts)]
        first += len(job.plan.hosts)
        jobs.append(_measured(job, outcomes, observation, target if job.plan.trees else ""))
    sent = observation.packets.sent_bytes
    every = [each for outcome in observation.outcomes for each in outcome.iterations]
    return Emulated(
        jobs=jobs,
        carried={
            ends: float(sent[Addressing.interface(*ends)])
            for link in fabric.links
            for ends in ((link.a, link.b), (link.b, link.a))
        },
        seconds=max(each.end for each in every) - min(each.start for each in every),
        dilation=emulation.dilation,
        observation=observation,
    )


def _measured(
    job: DeployedJob, outcomes: Sequence[RankOutcome], observation: Observation, target: str
) -> JobMeasurements:
    """The measurements of a job's ranks. SumMismatch if any sum was wrong."""
    if wrong := {each.rank: each.wrong for each in outcomes if each.wrong}:
        ranks = ", ".join(f"rank {rank}: {count}" for rank, count in wrong.items())
        raise SumMismatch(f"job {job.number} ({job.system.name}): values that differ: {ranks}")
    workers = outcomes[: job.plan.workers]
    tcp = sum(observation.packets.tcp_resent[host] for host in set(job.plan.hosts))
    return JobMeasurements(
        iterations=[each.iterations for each in workers],
        verified=all(each.checked == values_to_check(job) for each in workers),
        retransmitted=sum(each.retransmitted for each in outcomes) + tcp,
        collisions=max(each.collisions for each in outcomes),
        overflows=max(each.overflows for each in outcomes),
        quantisation_error=outcomes[0].quantisation_error,
        events=observation.events.get(job.number, Counter()),
        switch_target=target,
        late_s=max(each.late_s for each in outcomes),
    )


def values_to_check(job: DeployedJob) -> int:
    """The number of values that a worker must have compared by the end."""
    return (job.job.iterations + job.job.warmup) * job.gradient_bytes // 4


def observe(deployment: Deployment, log_dir: Path, captures: Sequence[str] = ()) -> Observation:
    """Run the jobs side by side. RankFailed or EmulationError if they do not finish."""
    emulation, fabric, jobs = deployment.experiment.emulation, deployment.fabric, deployment.jobs
    allocations = allocate([(job.plan, job.window) for job in jobs], fabric.slots)
    target, program = (
        targets.choose(emulation.target),
        targets.program(emulation.p4_program, fabric.values),
    )
    log_dir.mkdir(parents=True, exist_ok=True)
    # Only switches that sum for some job need the P4 program; the others route in the kernel.
    summing = {switch for own in allocations for each in own for switch in each.tree.switches}
    return emulate(
        fabric,
        {switch: targets.make(target, log_dir / f"{switch}.log", program) for switch in summing},
        [each for own in allocations for each in own],
        lambda network: [
            task
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
            {ends: via for job in jobs for ends, via in job.plan.pins.items()},
            emulation.loss,
            {link: log_dir / f"{link}.pcap" for link in captures},
        ),
        timeout=60 + PATIENCE * emulation.dilation * max(job.expected_end_s for job in jobs),
    )
