"""One cell of an experiment: deployed, emulated, and turned back into the real cluster's terms."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from testbed.dataplane.events import CONTRIBUTIONS, Event
from testbed.emulation import targets
from testbed.emulation.run import Conditions, Observation, emulate
from testbed.emulation.verdict import verdict
from testbed.endpoint.task import Outcome
from testbed.experiment.cells import Cell
from testbed.experiment.schema import Experiment
from testbed.harness.deployment import DeployedJob, deploy
from testbed.harness.fabrics import build_fabric
from testbed.harness.memory import allocate
from testbed.harness.tasks import tasks
from testbed.provenance import now
from testbed.results import Iteration, Row, algbw
from testbed.topology.fabric import Fabric

PATIENCE = 10
"""How many times its expected duration a run may last before it is given up."""


class SumMismatch(Exception):
    """A worker received a sum that is not the true one."""


@dataclass(frozen=True)
class CellResult:
    """Rows of results.csv and of iterations.csv."""

    jobs: list[Row]
    iterations: list[Iteration]


def describe(cell: Cell, fabric: Fabric, job: DeployedJob) -> Row:
    """The row of a job with all that is known before anything runs."""
    emulation = cell.experiment.emulation
    return Row(
        experiment=cell.experiment.name,
        cell=cell.id,
        repeat=cell.repeat,
        job=job.number,
        system=job.system.name,
        workload=job.job.workload,
        topology=fabric.name,
        workers=job.plan.workers,
        servers=len(job.plan.hosts) - job.plan.workers,
        ina_tors=len(fabric.ina),
        tors=len(fabric.tors),
        backend="emulate",
        switch_target="",
        dilation=emulation.dilation,
        scale=emulation.scale,
        iterations=job.job.iterations,
        expected_jct_s=job.expected_jct_s / emulation.scale,
        started_at=now(),
    )


def expected_wall_s(experiment: Experiment) -> float:
    """Seconds that a cell's iterations should take on this machine, bring-up apart."""
    jobs = deploy(experiment, build_fabric(experiment))
    return max(job.expected_end_s for job in jobs) * experiment.emulation.dilation


def run_cell(cell: Cell, log_dir: Path) -> CellResult:
    """Run one cell. SumMismatch, RankFailed, EmulationError or DeploymentError if not."""
    experiment, emulation = cell.experiment, cell.experiment.emulation
    fabric = build_fabric(experiment)
    jobs = deploy(experiment, fabric)
    allocations = allocate([(job.plan, job.window) for job in jobs], fabric.slots)
    target = targets.choose(emulation.target)
    log_dir.mkdir(parents=True, exist_ok=True)
    # Only a ToR that sums for some job needs the P4 program; the others route in the kernel.
    summing = {switch for own in allocations for each in own for switch in each.tree.switches}
    observation = emulate(
        fabric,
        {switch: targets.make(target, log_dir / f"{switch}.log") for switch in summing},
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
        conditions=Conditions(
            emulation.dilation,
            emulation.seed,
            {ends: via for job in jobs for ends, via in job.plan.pins.items()},
            emulation.loss,
        ),
        timeout=60 + PATIENCE * expected_wall_s(experiment),
    )
    result = CellResult([], [])
    first = 0
    for job in jobs:
        outcomes = observation.outcomes[first : first + len(job.plan.hosts)]
        first += len(job.plan.hosts)
        row = replace(describe(cell, fabric, job), switch_target=target if job.plan.trees else "")
        _measure(result, row, job, outcomes, observation)
    return result


def _measure(
    result: CellResult,
    row: Row,
    job: DeployedJob,
    outcomes: list[Outcome],
    observation: Observation,
) -> None:
    """Fill in ``row`` from what the job's ranks saw, on the real cluster's clock."""
    workers = outcomes[: job.plan.workers]
    if wrong := {each.rank: each.wrong for each in workers if each.wrong}:
        ranks = ", ".join(f"rank {rank}: {count}" for rank, count in wrong.items())
        raise SumMismatch(f"job {job.number} ({job.system.name}): values that differ: {ranks}")
    real = 1 / (row.dilation * row.scale)
    measured = [each.iterations[job.job.warmup :] for each in workers]
    start = min(each[0].start for each in measured)
    jct = (max(each[-1].end for each in measured) - start) * real
    by_iteration = list(zip(*measured, strict=True))
    exposed = [max(each.end - each.compute_end for each in ranks) for ranks in by_iteration]
    # The job communicates from its first ready bucket to its last sum.
    first_ready = job.units[0].ready_s * row.dilation
    transfer = [
        max(each.end - each.start for each in ranks) - first_ready for ranks in by_iteration
    ]
    iterations = len(by_iteration)
    result.jobs.append(
        replace(
            row,
            jct_s=jct,
            iteration_s=jct / iterations,
            throughput_samples_s=job.plan.workers * job.trace.batch * iterations / jct,
            algbw_gbit_s=algbw(job.gradient_bytes / row.scale, fmean(transfer) * real) / 1e9,
            exposed_comm_s=fmean(exposed) * real,
            retransmitted=sum(each.retransmitted for each in workers),
            collisions=sum(each.collisions for each in workers),
            overflows=sum(each.overflows for each in workers),
            **_counted(observation.events.get(job.number, Counter())),
            verified=all(each.checked == values_to_check(job) for each in workers),
            verdict=verdict(
                observation.idle,
                max(each.late_s for each in outcomes),
                jct / real / iterations,
                observation.lost,
                observation.dead,
            ),
        )
    )
    result.iterations.extend(
        Iteration(
            cell=row.cell,
            repeat=row.repeat,
            job=row.job,
            system=row.system,
            workload=row.workload,
            rank=rank,
            iteration=index,
            start_s=(each.start - start) * real,
            compute_end_s=(each.compute_end - start) * real,
            end_s=(each.end - start) * real,
        )
        for rank, own in enumerate(measured)
        for index, each in enumerate(own)
    )


def _counted(events: Counter[Event]) -> dict[str, Any]:
    """Columns of a row that P4 switches counted."""
    return {
        "switch_packets": sum(events[event] for event in CONTRIBUTIONS),
        "switch_sums": events[Event.COMPLETED],
        "switch_duplicates": events[Event.DUPLICATE],
        "switch_collisions": events[Event.COLLISION],
        "switch_refused": events[Event.REFUSED],
    }


def values_to_check(job: DeployedJob) -> int:
    """Values that a worker must have compared by the end."""
    return (job.job.iterations + job.job.warmup) * job.gradient_bytes // 4
