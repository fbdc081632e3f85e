"""An experiment file from beginning to end: cells, one after another, into a results directory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from testbed.emulation.network import EmulationError
from testbed.endpoint.crew import RankFailed
from testbed.experiment.cells import Cell, expand
from testbed.experiment.load import load
from testbed.experiment.schema import Experiment
from testbed.harness.cell import (
    CellResult,
    Row,
    SumMismatch,
    describe,
    expected_wall_s,
    run_cell,
)
from testbed.harness.deployment import DeploymentError, build_fabric, deploy
from testbed.harness.isolation import Failed, call
from testbed.harness.progress import Progress
from testbed.results import RunDirectory, environment, now
from testbed.systems import registry
from testbed.workload import trace

EXPECTED_ERRORS = (DeploymentError, EmulationError, RankFailed, SumMismatch, FileNotFoundError)


def read(path: Path) -> Experiment:
    """Load and validate an experiment file. Invalid lists every problem with its place."""
    return load(path, systems=tuple(registry), workloads=trace.names())


def plan(experiment: Experiment) -> list[tuple[Cell, float]]:
    """The cells in the order in which they would run, each with its expected seconds.

    DeploymentError if a cell cannot be set up: found before anything is built.
    """
    return [(cell, BRING_UP_S + expected_wall_s(cell.experiment)) for cell in expand(experiment)]


BRING_UP_S = 3.0


def run(experiment: Experiment, root: Path, command: Sequence[str]) -> tuple[Path, int]:
    """Run every cell; return the results directory and the number of cells that failed."""
    planned = plan(experiment)
    directory = RunDirectory.create(root, experiment)
    metadata: dict[str, Any] = environment(command) | {
        "started_at": now(),
        "seeds": {"experiment": experiment.emulation.seed},
        "finished_at": None,
    }
    directory.write_metadata(metadata)
    progress = Progress(len(planned), [seconds for _, seconds in planned])
    failures = 0
    for cell, _ in planned:
        what = title(cell)
        progress.start(what)
        started = now()
        log_dir = directory.path / "logs" / f"{cell.id}-{cell.repeat}"
        try:
            result = call(run_cell, cell.experiment, log_dir, expected=EXPECTED_ERRORS)
        except Failed as failure:
            failures += 1
            result = _failed(cell, str(failure))
            if failure.details:
                log_dir.mkdir(parents=True, exist_ok=True)
                (log_dir / "error.txt").write_text(failure.details)
            progress.finish(f"{what}: FAILED: {failure}")
        else:
            progress.finish(f"{what}: {_summary(result)}")
        names = {"experiment": experiment.name, "cell": cell.id, "repeat": cell.repeat}
        directory.append([names | {"started_at": started} | row for row in result.jobs])
        directory.append_iterations([names | row for row in result.iterations])
    directory.write_metadata(metadata | {"finished_at": now()})
    return directory.path, failures


def _failed(cell: Cell, reason: str) -> CellResult:
    """What is known of a cell that did not run, so that it is a row and not a gap."""
    fabric = build_fabric(cell.experiment)
    jobs: list[Row] = [
        describe(cell.experiment, fabric, job)
        | {"verified": False, "verdict": "failed", "error": reason}
        for job in deploy(cell.experiment, fabric)
    ]
    return CellResult(jobs, [])


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
        f"JCT {row['jct_s']:.3g} s (closed form {row['expected_jct_s']:.3g} s), {row['verdict']}"
        for row in result.jobs
    )
