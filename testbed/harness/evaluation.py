"""An experiment file from beginning to end: cells, one after another, into a results directory."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from testbed.dataplane.control import ControlError
from testbed.emulation import targets
from testbed.emulation.capture import ends
from testbed.emulation.network import EmulationError
from testbed.endpoint.crew import RankFailed
from testbed.experiment.cells import Cell, expand
from testbed.experiment.load import dump, load
from testbed.experiment.schema import Experiment
from testbed.harness.cell import CellResult, describe, expected_wall_s, run_cell
from testbed.harness.deployment import deploy, strain
from testbed.harness.emulating import SumMismatch
from testbed.harness.errors import DeploymentError
from testbed.harness.fabrics import build_fabric
from testbed.harness.isolation import Failed, call
from testbed.harness.progress import Progress
from testbed.provenance import environment, now
from testbed.results import RunDirectory
from testbed.simulation.simulate import Stalled
from testbed.systems import registry
from testbed.workload import trace

EXPECTED_ERRORS = (
    ControlError, DeploymentError, EmulationError, RankFailed, Stalled, SumMismatch,
)  # fmt: skip


def read(path: Path) -> Experiment:
    """Load and validate an experiment file. Invalid lists every problem with its place."""
    return load(
        path,
        systems={name: system.servers for name, system in registry.items()},
        workloads=trace.names(),
    )


def plan(experiment: Experiment) -> list[tuple[Cell, float]]:
    """The cells in the order in which they would run, each with its expected seconds.

    DeploymentError if a cell cannot be set up: found before anything is built.
    """
    return [(cell, BRING_UP_S + expected_wall_s(cell.experiment)) for cell in expand(experiment)]


BRING_UP_S = 3.0


def run(experiment: Experiment, root: Path, captures: Sequence[str] = ()) -> tuple[Path, int]:
    """Run every cell; return the results directory and the number of cells that failed.

    ``captures`` are links such as h0-t0, whose packets are written beside each cell's logs.
    """
    planned = plan(experiment)
    emulated = [
        cell.experiment.emulation for cell, _ in planned if cell.experiment.backend == "emulate"
    ]
    for target, program in {(each.target, each.p4_program) for each in emulated}:
        targets.prepare(targets.choose(target), targets.program(program))
    for cell, _ in planned if captures else ():
        for link in captures:
            ends(link, build_fabric(cell.experiment))
    directory = RunDirectory.create(root, experiment.name)
    directory.write("experiment.yaml", dump(experiment))
    metadata = environment() | {"seeds": {"experiment": experiment.emulation.seed}}
    directory.write_metadata(metadata | {"finished_at": None})
    progress = Progress(len(planned), [seconds for _, seconds in planned])
    failures = 0
    for cell, _ in planned:
        progress.start(title(cell))
        log_dir = directory.logs / f"{cell.id}-{cell.repeat}"
        try:
            result = call(run_cell, cell, log_dir, captures, expected=EXPECTED_ERRORS)
        except Failed as failure:
            failures += 1
            result = _failed(cell, str(failure))
            if failure.details:
                log_dir.mkdir(parents=True, exist_ok=True)
                (log_dir / "error.txt").write_text(failure.details)
            progress.finish(f"{title(cell)}: FAILED: {failure}")
        else:
            progress.finish(f"{title(cell)}: {_summary(result)}")
        directory.append(result.jobs)
        directory.append_iterations(result.iterations)
    directory.write_metadata(metadata | {"finished_at": now()})
    return directory.path, failures


def warnings(experiment: Experiment) -> list[str]:
    """What is likely to make rows invalid on this machine, known before anything runs."""
    found = []
    for cell in expand(experiment):
        fabric = build_fabric(cell.experiment)
        jobs = deploy(cell.experiment, fabric)
        found.append(
            strain(jobs, fabric, cell.experiment.emulation.dilation, len(os.sched_getaffinity(0)))
        )
    return list(dict.fromkeys(filter(None, found)))


def _failed(cell: Cell, reason: str) -> CellResult:
    """What is known of a cell that did not run, so that it is a row and not a gap."""
    fabric = build_fabric(cell.experiment)
    rows = [describe(cell, fabric, job) for job in deploy(cell.experiment, fabric)]
    return CellResult([replace(row, verdict="failed", error=reason) for row in rows], [])


def title(cell: Cell) -> str:
    jobs = " + ".join(f"{job.system} {job.workload}" for job in cell.experiment.jobs)
    others = [
        f"{path.rpartition('.')[2]}={value}"
        for path, value in cell.settings.items()
        if not path.endswith((".system", ".workload"))
    ]
    return " ".join([jobs, *others, f"repeat {cell.repeat + 1}"])


def _summary(result: CellResult) -> str:
    return "; ".join(
        f"JCT {row.jct_s:.3g} s (closed form {row.expected_jct_s:.3g} s), {row.verdict}"
        for row in result.jobs
    )
