"""One cell of an experiment: deployed, emulated, and turned back into the real cluster's terms."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from testbed.emulation.run import Observation, emulate
from testbed.emulation.verdict import verdict
from testbed.endpoint.task import Outcome
from testbed.experiment.schema import Experiment
from testbed.harness.deployment import DeployedJob, build_fabric, deploy
from testbed.topology.fabric import Fabric

Row = dict[str, Any]

PATIENCE = 10
"""How many times its expected duration a run may last before it is given up."""


class SumMismatch(Exception):
    """A worker received a sum that is not the true one."""


@dataclass(frozen=True)
class CellResult:
    """Rows of results.csv and of iterations.csv, without what names the cell."""

    jobs: list[Row]
    iterations: list[Row]


def choose_target(wanted: str) -> str:
    """``auto`` is native: it carries more, and is held equal to BMv2."""
    if wanted == "bmv2" and shutil.which("simple_switch") is None:
        raise FileNotFoundError(
            "target bmv2: simple_switch is not installed; install p4lang's packages or use native"
        )
    return "native" if wanted == "auto" else wanted


def describe(experiment: Experiment, fabric: Fabric, job: DeployedJob) -> Row:
    """The columns that are known before anything runs."""
    emulation = experiment.emulation
    return {
        "job": job.number,
        "system": job.system.name,
        "workload": job.job.workload,
        "topology": fabric.name,
        "workers": job.plan.workers,
        "servers": len(job.plan.hosts) - job.plan.workers,
        "ina_tors": len(fabric.ina),
        "tors": len(fabric.tors),
        "backend": "emulate",
        "dilation": emulation.dilation,
        "scale": emulation.scale,
        "iterations": job.job.iterations,
        "expected_jct_s": job.expected.iteration_s * job.job.iterations / emulation.scale,
    }


def expected_wall_s(experiment: Experiment) -> float:
    """Seconds that a cell's iterations should take on this machine, bring-up apart."""
    jobs = deploy(experiment, build_fabric(experiment))
    return max(_duration_s(job) for job in jobs) * experiment.emulation.dilation


def _duration_s(job: DeployedJob) -> float:
    return job.expected.iteration_s * (job.job.iterations + job.job.warmup)


def run_cell(experiment: Experiment, log_dir: Path) -> CellResult:
    """Run one resolved cell. SumMismatch, RankFailed, EmulationError or DeploymentError if not."""
    emulation = experiment.emulation
    fabric = build_fabric(experiment)
    jobs = deploy(experiment, fabric)
    trees = {job.number: job.plan.trees[0] for job in jobs if job.plan.trees}
    target = choose_target(emulation.target)
    # Only a ToR that sums for some job needs the P4 program; the others route in the kernel.
    targets = {switch: target for tree in trees.values() for switch in tree.switches}
    observation = emulate(
        fabric,
        targets,
        trees,
        lambda network: [
            task
            for job in jobs
            for task in job.tasks(
                {node: network.address(node) for node in fabric.nodes},
                fabric.slots,
                emulation.dilation,
                emulation.seed,
            )
        ],
        dilation=emulation.dilation,
        seed=emulation.seed,
        log_dir=log_dir,
        timeout=60 + PATIENCE * expected_wall_s(experiment),
    )
    result = CellResult([], [])
    first = 0
    for job in jobs:
        outcomes = observation.outcomes[first : first + len(job.plan.hosts)]
        first += len(job.plan.hosts)
        _measure(result, experiment, fabric, job, outcomes, observation, targets)
    return result


def _measure(
    result: CellResult,
    experiment: Experiment,
    fabric: Fabric,
    job: DeployedJob,
    outcomes: list[Outcome],
    observation: Observation,
    targets: Mapping[str, str],
) -> None:
    workers = outcomes[: job.plan.workers]
    if wrong := {each.rank: each.wrong for each in workers if each.wrong}:
        ranks = ", ".join(f"rank {rank}: {count}" for rank, count in wrong.items())
        raise SumMismatch(f"job {job.number} ({job.system.name}): values that differ: {ranks}")
    real = 1 / (experiment.emulation.dilation * experiment.emulation.scale)
    measured = [each.iterations[job.job.warmup :] for each in workers]
    start = min(each[0].start for each in measured)
    jct = (max(each[-1].end for each in measured) - start) * real
    iterations = len(measured[0])
    exposed = [
        max(each[i].end - each[i].compute_end for each in measured) * real
        for i in range(iterations)
    ]
    first_ready = job.units[0].ready_s * experiment.emulation.dilation
    transfer = [
        max(each[i].end - each[i].start - first_ready for each in measured)
        for i in range(iterations)
    ]
    # Scaled bytes over the emulator's clock, at the real cluster's rates.
    algbw = job.gradient_bytes * 8 / float(np.mean(transfer)) * experiment.emulation.dilation
    mean_on_clock = jct / real / iterations
    result.jobs.append(
        describe(experiment, fabric, job)
        | {
            "switch_target": targets[next(iter(targets))] if targets else "",
            "jct_s": jct,
            "iteration_s": jct / iterations,
            "throughput_samples_s": job.plan.workers * job.trace.batch * iterations / jct,
            "algbw_gbit_s": algbw / 1e9,
            "exposed_comm_s": float(np.mean(exposed)),
            "retransmitted": sum(each.retransmitted for each in workers),
            "collisions": sum(each.collisions for each in workers),
            "verified": all(each.checked == values_to_check(job) for each in workers),
            "verdict": verdict(
                observation.idle,
                max(each.late_s for each in outcomes),
                mean_on_clock,
                observation.lost,
                observation.dead,
            ),
        }
    )
    result.iterations.extend(
        {
            "job": job.number,
            "system": job.system.name,
            "workload": job.job.workload,
            "rank": rank,
            "iteration": index,
            "start_s": (each.start - start) * real,
            "compute_end_s": (each.compute_end - start) * real,
            "end_s": (each.end - start) * real,
        }
        for rank, own in enumerate(measured)
        for index, each in enumerate(own)
    )


def values_to_check(job: DeployedJob) -> int:
    """Values that a worker must have compared by the end."""
    return (job.job.iterations + job.job.warmup) * job.gradient_bytes // 4
