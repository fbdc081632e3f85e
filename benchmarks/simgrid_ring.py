"""A ring of many workers in the flow back end beside SimGrid's flow model: time and memory.

    python -m benchmarks.simgrid_ring [--workers 256 1024] [--size 100MB] [--rounds 3]

It runs one all-reduce among hosts of one switch. Each measurement is a process of its own; its time
is processor time. The flow back end's time includes planning, and its memory includes Python and
all imports. SimGrid (Debian: libsimgrid-dev) has the same links, at the rate that TCP's frames
leave for data, and no bandwidth corrections. Without SimGrid, only our figures are printed. SimGrid
runs every transfer; the flow back end runs a round of a ring as one, because all positions keep
step.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import process_time
from typing import NamedTuple

from benchmarks.one_process import in_a_process
from testbed.backends.flow.scenario import Assumptions, Job
from testbed.backends.flow.simulate import simulate
from testbed.plan.units import Unit
from testbed.systems import Assignment, registry
from testbed.topology.builders import leaf_spine
from testbed.topology.framing import Framing
from testbed.units import parse_size

RATE, QUEUE, HOP_S = 1e10, 256_000, 1e-6
_SOURCE = Path(__file__).with_suffix(".cpp")
_PLAIN_FLOWS = (
    "--cfg=network/model:CM02", "--cfg=network/crosstraffic:0", "--cfg=network/TCP-gamma:1e20",
    "--cfg=contexts/stack-size:64", "--log=root.thresh:warning",
)  # fmt: skip


class Measured(NamedTuple):
    """``all_reduce_s`` is simulated time."""

    all_reduce_s: float
    cpu_s: float
    peak_mib: float


def flow_back_end(workers: int, size: int) -> Measured:
    rack = leaf_spine(1, 1, workers, RATE, RATE, QUEUE)
    before = process_time()
    plan = registry["ring"].plan(Assignment(rack.hosts), rack)
    job = Job(plan, (Unit(0, size // 4, 0.0),), 0.0, ((1.0,),) * workers)
    timeline = simulate(rack, [job], Assumptions(hop_s=HOP_S))
    cpu_s = process_time() - before
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Measured(timeline.jct_s(0), cpu_s, peak)


def simgrid(program: Path, workers: int, size: int) -> Measured:
    rate = RATE * Framing().tcp_efficiency
    command = [str(program), *map(str, (workers, size, rate, HOP_S)), *_PLAIN_FLOWS]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return Measured(float(told[0]), float(told[1]), float(told[2]) / 1024)


def compiled(folder: str) -> Path | None:
    """Our program for SimGrid, compiled; None if there is no compiler or no SimGrid."""
    program = Path(folder, "simgrid_ring")
    command = ["g++", "-O2", "-std=c++17", str(_SOURCE), "-o", str(program), "-lsimgrid"]
    if shutil.which("g++") is None or subprocess.run(command, capture_output=True).returncode:
        return None
    return program


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--workers", type=int, nargs="+", default=[256, 1024])
    parser.add_argument("--size", type=parse_size, default=100_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    with TemporaryDirectory() as folder:
        program = compiled(folder)
        if program is None:
            print("SimGrid: not found (g++ and libsimgrid-dev)")
        print(f"{'':16} {'workers':>7} {'all-reduce':>12} {'time':>10} {'memory':>10}")
        for workers in asked.workers:
            runs: dict[str, Callable[[], Measured]] = {
                "flow back end": partial(in_a_process, flow_back_end, workers, asked.size)
            }
            if program is not None:
                runs["SimGrid"] = partial(simgrid, program, workers, asked.size)
            rounds = [{name: run() for name, run in runs.items()} for _ in range(asked.rounds)]
            for name in runs:
                own = [each[name] for each in rounds]
                all_reduce_s, cpu_s, peak_mib = (
                    median(values) for values in zip(*own, strict=True)
                )
                print(
                    f"{name:16} {workers:7} {all_reduce_s:10.5f} s {cpu_s:8.2f} s"
                    f" {peak_mib:6.0f} MiB",
                    flush=True,
                )


if __name__ == "__main__":
    main()
