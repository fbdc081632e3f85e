"""One cell of an experiment: deployed, run, and turned back into the real cluster's terms."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from testbed.campaign import emulating, simulating
from testbed.campaign.link_loads import busiest_s
from testbed.campaign.version import version
from testbed.deployment.deploy import DeployedJob, deploy
from testbed.experiment.cells import Cell
from testbed.placement.fabric import build_fabric
from testbed.provenance import now
from testbed.results import Iteration, LinkLoad, Row
from testbed.topology.fabric import Fabric


@dataclass(frozen=True)
class CellResult:
    """Rows of results.csv, iterations.csv and links.csv."""

    jobs: list[Row]
    iterations: list[Iteration] = field(default_factory=list)
    links: list[LinkLoad] = field(default_factory=list)


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
        ina_tors=len(fabric.ina.intersection(fabric.tors)),
        tors=len(fabric.tors),
        backend=cell.experiment.backend,
        switch_target="",
        dilation=emulation.dilation if cell.experiment.backend == "emulate" else 1.0,
        scale=emulation.scale,
        iterations=job.job.iterations,
        expected_jct_s=job.expected_jct_s / emulation.scale,
        started_at=now(),
        switches=len(fabric.switches),
        ina_switches=len(fabric.ina),
        settings=json.dumps(cell.settings),
        version=version(cell.experiment),
        quantisation=job.quantisation,
    )


def run_cell(cell: Cell, log_dir: Path, captures: Sequence[str] = ()) -> CellResult:
    """Run one cell on its back end; ``captures`` are links whose packets go to ``log_dir``.

    SumMismatch, RankFailed, EmulationError, Stalled or DeploymentError if not.
    """
    experiment = cell.experiment
    fabric = build_fabric(experiment)
    jobs = deploy(experiment, fabric)
    rows = [describe(cell, fabric, job) for job in jobs]
    if experiment.backend == "simulate":
        rows, iterations, links = simulating.run(experiment, fabric, jobs, rows)
    else:
        rows, iterations, links = emulating.run(experiment, fabric, jobs, rows, log_dir, captures)
    if len(jobs) == 1 and links:
        scale = experiment.emulation.scale
        routed_s = jobs[0].routed_jct_s(busiest_s(links) * scale) / scale
        rows = [replace(rows[0], routed_jct_s=routed_s)]
    return CellResult(rows, iterations, links)
