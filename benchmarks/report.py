"""How long a report of many rows takes, and how large its page is.

``python -m benchmarks.report [ROWS]`` makes up results (10,000 rows if not given): two fabrics,
four workloads, five places of INA, nine systems, and as many rates of loss as are needed, with four
repeats of each, iterations of 12 workers and the load of 32 links. It prints the time of
``ina-testbed report`` on them, the processor time of all its processes, and the size of the page.
The aim for 10,000 rows is 20 s.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import yaml

from testbed.results import Iteration, LinkLoad, Row, RunDirectory

SYSTEMS = ("ps", "ring", "switchml", "atp", "rina", "grid", "netreduce", "osp", "hierarchical-ring")
WORKLOADS = ("resnet50", "vgg16", "bert-base", "gpt2")
FABRICS = ("leaf-spine 3+3+3+4, 2 spines", "fat-tree k=4, 8x2")
COUNTS, REPEATS, WORKERS, LINKS = range(5), 4, 12, 32
EXPERIMENT = {
    "name": "made-up",
    "fabric": {
        "kind": "leaf-spine", "spines": 2, "leaves": 4, "hosts_per_leaf": 3, "host_rate": "10Gbit",
        "ina": "all", "ina_policy": "fullest", "ina_tier": "tor",
    },
    "jobs": [{"system": "ps", "workload": "resnet50", "workers": WORKERS}],
    "emulation": {"scale": "1", "loss": 0.0},
}  # fmt: skip


def rows(wanted: int) -> Iterator[Row]:
    """The ``wanted`` number of rows: times by a fixed rule, with noise of a few per cent."""
    noise = np.random.default_rng(1)
    each = len(SYSTEMS) * len(WORKLOADS) * len(FABRICS) * len(COUNTS) * REPEATS
    losses = [place / 1000 for place in range(-(-wanted // each))]
    cells = product(losses, FABRICS, WORKLOADS, COUNTS, SYSTEMS)
    for number in range(wanted):
        if number % REPEATS == 0:
            loss, fabric, workload, count, system = next(cells)
            ideal = (1 + SYSTEMS.index(system) / 4) * (1 + WORKLOADS.index(workload)) * (6 - count)
        jct = ideal * noise.uniform(1, 1.05)
        yield Row(
            experiment="made-up", cell=f"{number // REPEATS:010x}", repeat=number % REPEATS, job=0,
            system=system, workload=workload, topology=fabric, workers=WORKERS, servers=0,
            ina_tors=count, tors=4, backend="packet", switch_target="native", dilation=1.0,
            scale=1.0, iterations=2, jct_s=jct, iteration_s=jct / 2, throughput_samples_s=100 / jct,
            algbw_gbit_s=1.0, exposed_comm_s=jct / 5, retransmitted=0, collisions=0, verified=True,
            verdict="valid", expected_jct_s=ideal, switches=6, ina_switches=count,
            settings=json.dumps({"emulation.loss": loss, "jobs.0.system": system}),
        )  # fmt: skip


def make(root: Path, wanted: int) -> Path:
    """A results directory with the ``wanted`` number of rows."""
    directory = RunDirectory.create(root, "made-up")
    made = list(rows(wanted))
    directory.append(made)
    directory.append_iterations(
        Iteration(
            row.cell, row.repeat, 0, row.system, row.workload, rank, number,
            start_s=number * row.iteration_s, compute_end_s=(number + 0.7) * row.iteration_s,
            end_s=(number + 1 - rank / 100) * row.iteration_s,
        )
        for row in made for rank in range(WORKERS) for number in range(row.iterations)
        if row.iteration_s is not None
    )  # fmt: skip
    directory.append_links(
        LinkLoad(row.cell, row.repeat, *ends, *kinds, 10.0, 1e9, link / LINKS)
        for row in made for link in range(LINKS)
        for ends, kinds in [
            ((f"h{link}", f"t{link % 4}"), ("host", "tor")) if link % 2 else
            ((f"t{link % 4}", f"h{link}"), ("tor", "host"))
        ]
    )  # fmt: skip
    directory.write_metadata({"python": sys.version.split()[0], "seeds": {"experiment": 1}})
    directory.write("experiment.yaml", yaml.safe_dump(EXPERIMENT))
    return directory.path


def main() -> None:
    """Print the time and the size."""
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    with TemporaryDirectory() as scratch:
        made, out = make(Path(scratch), wanted), Path(scratch) / "out"
        begun, used = time.perf_counter(), os.times()
        command = [sys.executable, "-m", "testbed.cli", "report", str(made), "-o", str(out)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        took, now = time.perf_counter() - begun, os.times()
        processor = sum(now[:4]) - sum(used[:4])
        size = (out / "report.html").stat().st_size / 1e6
        print(f"{wanted:,} rows: {took:.1f} s, {processor:.1f} s of processor, {size:.2f} MB")


if __name__ == "__main__":
    main()
