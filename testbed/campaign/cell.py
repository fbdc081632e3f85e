"""Runs one cell of an experiment on its back end, and converts the results to the real cluster's
times."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from testbed.backends.emulation import backend as emulator
from testbed.backends.flow import backend as simulator
from testbed.backends.measurements import JobMeasurements, Measurements
from testbed.backends.packet import backend as packets
from testbed.backends.recording import NOTHING, Recording
from testbed.campaign import losing
from testbed.campaign.link_loads import busiest_s, loads
from testbed.campaign.measurement import measure
from testbed.campaign.verdicts import verdicts
from testbed.campaign.version import deployed, version
from testbed.deployment.deploy import DeployedJob, Deployment
from testbed.deployment.digest import digest, whole
from testbed.experiment.cells import Cell
from testbed.protocols.allocation import Window
from testbed.protocols.events import Event
from testbed.provenance import now
from testbed.results import Iteration, LinkLoad, PacketDigests, Progress, Row
from testbed.switches.events import CONTRIBUTIONS
from testbed.topology.fabric import Fabric
from testbed.training.learning import Learning, Learnt

_BACK_ENDS = {"simulate": simulator.run, "packet": packets.run, "emulate": emulator.run}


@dataclass(frozen=True)
class CellResult:
    """A cell's rows for results.csv, iterations.csv, links.csv, digests.csv and training.csv."""

    jobs: list[Row]
    iterations: list[Iteration] = field(default_factory=list)
    links: list[LinkLoad] = field(default_factory=list)
    digests: list[PacketDigests] = field(default_factory=list)
    training: list[Progress] = field(default_factory=list)


def describe(cell: Cell, deployment: Deployment) -> list[Row]:
    """The row of each job with everything that is known before it runs."""
    ran = deployed(cell.experiment, whole(deployment))
    return [_described(cell, deployment.fabric, job, ran) for job in deployment.jobs]


def _described(cell: Cell, fabric: Fabric, job: DeployedJob, ran: str) -> Row:
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
        started_at=now() if cell.experiment.backend == "emulate" else "",
        switches=len(fabric.switches),
        ina_switches=len(fabric.ina),
        settings=json.dumps(cell.settings),
        version=version(cell.experiment),
        deployed=ran,
        quantisation=job.quantisation,
        plan=digest(job),
        # False stays the value if the cell fails.
        verified=None if cell.experiment.backend == "simulate" else False,
    )


def run_cell(
    cell: Cell, deployment: Deployment, log_dir: Path, recording: Recording = NOTHING
) -> CellResult:
    """Run one cell on its back end; ``recording`` goes to ``log_dir``.

    Raises SumMismatch, RankFailed, EmulationError, Stalled, BrokenConnection or DeploymentError.
    """
    described = describe(cell, deployment)
    run = _BACK_ENDS[cell.experiment.backend]
    if not any(job.job.training for job in deployment.jobs):
        with losing.named(deployment):
            measured = run(deployment, log_dir, recording)
        return _result(deployment, described, measured)
    learning = Learning(deployment)
    with losing.named(deployment):
        measured = run(learning.deployment, log_dir, recording)
    result = _result(deployment, described, measured)
    return _learnt(result, deployment, learning.finish(measured), measured.dilation)


def _result(deployment: Deployment, described: Sequence[Row], measured: Measurements) -> CellResult:
    """The ``described`` rows, completed with what was measured."""
    clock = measured.dilation * deployment.experiment.emulation.scale
    rows: list[Row] = []
    iterations: list[Iteration] = []
    for job, row, found in zip(deployment.jobs, described, measured.jobs, strict=True):
        row, own = measure(row, job, found.iterations, 1 / clock)
        notes = "; ".join(filter(None, (found.notes, _cut(job.window), _sent(job))))
        rows.append(replace(row, **_counted(found), notes=notes))
        iterations += own
    means = [row.iteration_s * clock for row in rows if row.iteration_s is not None]
    said = verdicts(deployment, measured, means)
    rows = [replace(row, verdict=each) for row, each in zip(rows, said, strict=True)]
    seconds = measured.seconds / measured.dilation
    links = loads(rows[0], deployment.fabric, measured.carried, seconds)
    if len(rows) == 1 and links:
        (job,), scale = deployment.jobs, rows[0].scale
        routed_s = job.routed_jct_s(busiest_s(links) * scale) / scale
        rows = [replace(rows[0], routed_jct_s=routed_s)]
    return CellResult(rows, iterations, links, list(_digests(rows[0], measured)))


def _digests(row: Row, measured: Measurements) -> Iterator[PacketDigests]:
    if (own := measured.digests) is not None:
        yield PacketDigests(row.cell, row.repeat, own.packets, own.every, own.text())


def _learnt(
    result: CellResult, deployment: Deployment, learnt: Mapping[int, Learnt], dilation: float
) -> CellResult:
    """``result`` with what its jobs have learnt, at full size."""
    rows, training = [], []
    for row, job in zip(result.jobs, deployment.jobs, strict=True):
        found = learnt.get(job.number)
        if found is None or job.job.training is None:
            rows.append(row)
            continue
        notes = "; ".join(each for each in (row.notes, found.notes) if each)
        errors = [point.error for point in found.points if point.loss is not None]
        error = fmean(errors) if errors else None
        rows.append(replace(row, notes=notes, quantisation_error=error))
        training += [
            Progress(
                cell=row.cell,
                repeat=row.repeat,
                job=row.job,
                system=row.system,
                workload=row.workload,
                iteration=point.iteration,
                time_s=(point.at_s or 0.0) / dilation,
                metric=found.script.metric,
                higher_is_better=found.script.higher_is_better,
                value=point.value,
                target_value=job.job.training.target,
                loss=point.loss,
                staleness=point.staleness,
                quantisation_error=point.error,
                weights=point.weights,
            )
            for point in found.points
        ]
    return replace(result, jobs=rows, training=training)


def _cut(window: Window) -> str:
    """A note if a switch's memory limited the window; empty otherwise."""
    if not window.cut_from:
        return ""
    return (
        f"a switch's slots cut the window to {window.fragments} packets: the queues would hold"
        f" {window.cut_from}"
    )


def _sent(job: DeployedJob) -> str:
    """A note on the share of packets that a job with a density should send; empty for others."""
    if (density := job.job.density) == 1:
        return ""
    always = f", and the first {job.window.fragments} of each bucket whatever they hold"
    shown = density if isinstance(density, str) else f"{density:g}"
    sent = f"density {shown}: {job.plan.sent:.3g} of all packets are sent"
    return sent + always * (job.system.sparse == "packets")


def _counted(found: JobMeasurements) -> dict[str, Any]:
    """The columns of a row that the back end measured directly."""
    columns: dict[str, Any] = {
        "verified": found.verified,
        "retransmitted": found.retransmitted,
        "collisions": found.collisions,
        "overflows": found.overflows,
        "quantisation_error": found.quantisation_error,
        "switch_target": found.switch_target,
    }
    if found.events is None:
        return columns
    return columns | {
        "switch_packets": sum(found.events[event] for event in CONTRIBUTIONS),
        "switch_sums": found.events[Event.COMPLETED],
        "switch_duplicates": found.events[Event.DUPLICATE],
        "switch_collisions": found.events[Event.COLLISION] + found.events[Event.EVICTED],
        "switch_refused": found.events[Event.REFUSED],
    }
