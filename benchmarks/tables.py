"""The time that large tables take: a report on 10,000 rows, and resuming a sweep of as many.

    .venv/bin/python benchmarks/tables.py

The cells are those of a real sweep; the times in the rows are made up. It prints seconds of
wall-clock time, from the start of the command to its end. The aims are 20 s for the report and, for
a sweep of a thousand cells, 2 s until the first missing one starts (``--dry-run`` ends there).
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from testbed import results
from testbed.campaign.cell import describe
from testbed.deployment.experiments import read
from testbed.experiment.cells import expand
from testbed.experiment.load import dump
from testbed.experiment.schema import Experiment
from testbed.placement.deployments import Deployments
from testbed.results import Iteration, RunDirectory

EXPERIMENT = """\
schema_version: 1
name: tables
backend: simulate
fabric: {{kind: leaf-spine, spines: 2, leaves: 8, hosts_per_leaf: 4, host_rate: 10Gbit}}
jobs: [{{workload: resnet50, system: ps, workers: 16, servers: 1}}]
emulation: {{repeats: {repeats}}}
sweep:
  jobs.0.system: [ps, ring, hierarchical-ring, switchml, atp, rina, grid, netreduce]
  jobs.0.workload: [{workloads}]
  fabric.ina: [none, 1, 2, 3, 4, 5, 6, all]
"""


def experiment(folder: Path, workloads: int, repeats: int) -> Experiment:
    names = ", ".join(f"synthetic/{size + 1}MB/10ms" for size in range(workloads))
    path = folder / "tables.yaml"
    path.write_text(EXPERIMENT.format(repeats=repeats, workloads=names))
    return read(path)


def fill(folder: Path, swept: Experiment) -> tuple[Path, int]:
    """The directory of a run without its last cell, and the number of its rows."""
    directory = RunDirectory.create(folder, swept.name)
    directory.write(results.EXPERIMENT, dump(swept))
    directory.write_metadata({"seeds": {"experiment": 1}})
    rows, iterations = [], []
    known = {}
    for number, cell in enumerate(expand(swept)[:-1]):
        if cell.id not in known:
            known[cell.id] = describe(cell, Deployments().of(cell.experiment))[0]
        row = known[cell.id]
        took = (row.expected_jct_s or 1.0) * (1 + number % 7 / 100)
        rows.append(
            replace(
                row, repeat=cell.repeat, jct_s=took, iteration_s=took / 3, exposed_comm_s=took / 9,
                throughput_samples_s=100 / took, algbw_gbit_s=1.0, verified=True, verdict="valid",
            )
        )  # fmt: skip
        iterations += [
            Iteration(
                row.cell, cell.repeat, 0, row.system, row.workload, rank, turn,
                took * turn / 3, took * (turn + 0.5) / 3, took * (turn + 1) / 3,
            )
            for rank in range(row.workers)
            for turn in range(3)
        ]  # fmt: skip
    directory.append_iterations(iterations)
    directory.append(rows)
    return directory.path, len(rows)


def seconds(*arguments: str | Path) -> float:
    """Wall-clock time of a verb. Raises CalledProcessError if it fails."""
    command = [Path(sys.executable).parent / "ina-testbed", *arguments]
    start = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - start


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run, rows = fill(folder, experiment(folder, 16, 1))
        took = seconds("run", "--resume", run, "--dry-run")
        print(f"go on after {rows} finished cells: {took:.1f} s")
        run, rows = fill(folder, experiment(folder, 16, 10))
        print(f"report of {rows} rows: {seconds('report', run, '-o', folder / 'report'):.1f} s")


if __name__ == "__main__":
    main()
