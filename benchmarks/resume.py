"""How long it takes to resume a sweep of a thousand cells whose last one is missing.

``python -m benchmarks.resume`` prints seconds of wall-clock time until the missing cell would start
(``run --resume DIR --dry-run`` ends there). The aim is 2 s. The cells are those of a real sweep.
The times in the rows are made up.
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
name: resumed
backend: simulate
fabric: {kind: leaf-spine, spines: 2, leaves: 8, hosts_per_leaf: 4, host_rate: 10Gbit}
jobs: [{workload: resnet50, system: ps, workers: 16, servers: 1}]
sweep:
  jobs.0.system: [ps, ring, hierarchical-ring, switchml, atp, rina, grid, netreduce]
  fabric.ina: [1, 2, 3, 4, 5, 6, 7, all]
  jobs.0.workload:
"""
WORKLOADS = [f"synthetic/{size}MB/10ms" for size in range(1, 17)]


def fill(folder: Path, swept: Experiment) -> tuple[Path, int]:
    """The directory of a run without its last cell, and the number of its rows."""
    directory = RunDirectory.create(folder, swept.name)
    directory.write(results.EXPERIMENT, dump(swept))
    directory.write_metadata({"seeds": {"experiment": 1}})
    rows, iterations = [], []
    for number, cell in enumerate(expand(swept)[:-1]):
        (row,) = describe(cell, Deployments().of(cell.experiment))
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


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "resumed.yaml"
        file.write_text(EXPERIMENT + "".join(f"    - {each}\n" for each in WORKLOADS))
        run, rows = fill(Path(name), read(file))
        command = [sys.executable, "-m", "testbed.cli", "run", "--resume", str(run), "--dry-run"]
        start = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        print(f"go on after {rows} finished cells: {time.perf_counter() - start:.1f} s")


if __name__ == "__main__":
    main()
