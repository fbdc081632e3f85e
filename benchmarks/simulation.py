"""The simulator's time by the number of workers: one iteration of every system.

    .venv/bin/python -m benchmarks.simulation [--k 4 8 16 32] [--leaves 512] [--systems ring ...]
                                              [--workload resnet50] [--figure FILE]

Each measurement is a process of its own on one core. Its time is processor time of planning and
simulating, without imports. Memory is the peak of the process. All hosts of the fabric are workers,
except one that is the server, and all ToRs aggregate. ``--leaves`` adds a leaf-spine with this
number of ToRs, 16 hosts each. The exponent is that of the power law in the number of workers that
best fits the times, from the second size on.
"""

from __future__ import annotations

import argparse
import os
import resource
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent import futures
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.one_process import one_process
from testbed.backends.flow.scenario import Job
from testbed.backends.flow.simulate import simulate
from testbed.plan.units import cut
from testbed.systems import Assignment, registry
from testbed.topology.builders import fat_tree, leaf_spine
from testbed.topology.fabric import Fabric
from testbed.workload.buckets import fill
from testbed.workload.catalogue import load

RATE, QUEUE = 100e9, 10**6
HOSTS_PER_LEAF, SPINES = 16, 16


@dataclass(frozen=True)
class Measured:
    """``iteration_s`` is simulated time; ``cpu_s`` is processor time of planning and simulating."""

    workers: int
    iteration_s: float
    cpu_s: float
    peak_gib: float


def measure(system: str, workload: str, fabric: str) -> Measured | str:
    """One iteration of ``system`` on all of ``fabric``, or the reason why it refuses."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    made = build(fabric)
    hosts, trace = made.hosts, load(workload)
    servers = hosts[-1:] if registry[system].servers[1] else ()
    # Otherwise every host serves, and pairs of hosts are tens of thousands.
    wanted = {"servers": "dedicated"} if "servers" in registry[system].options.model_fields else {}
    job = Assignment(hosts[:-1], servers, registry[system].settle(wanted), trace)
    start = time.process_time()
    try:
        plan = registry[system].plan(job, made)
    except ValueError as error:
        return str(error)
    units = cut(fill(trace, deferred=plan.deferred), plan, 1)
    paces = ((1.0,),) * plan.workers
    timeline = simulate(made, [Job(plan, units, trace.compute_s, paces)])
    cpu_s = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return Measured(plan.workers, timeline.iteration_s(0), cpu_s, peak)


def build(fabric: str) -> Fabric:
    kind, size = fabric.split()
    if kind == "fat-tree":
        made = fat_tree(int(size), int(size) // 2, RATE, RATE, QUEUE)
    else:
        made = leaf_spine(SPINES, int(size), HOSTS_PER_LEAF, RATE, RATE, QUEUE)
    return made.with_ina(made.tors)


def exponent(workers: Sequence[int], seconds: Sequence[float]) -> float:
    """The b of the power law a·workers**b that fits best (least squares of the logarithms)."""
    slope, _ = np.polyfit(np.log(workers), np.log(seconds), 1)
    return float(slope)


def measurements(
    systems: Sequence[str], workload: str, fabrics: Sequence[str], limit_s: float
) -> Iterator[tuple[str, str, Measured | str]]:
    for system in systems:
        refused = ""
        for fabric in fabrics:
            if not refused:
                with one_process() as process:
                    result = process.submit(measure, system, workload, fabric)
                    try:
                        found: Measured | str = result.result(timeout=limit_s)
                    except futures.TimeoutError:  # the builtin one only from Python 3.11
                        found = f"more than {limit_s:g} s"
                        for worker in process._processes.values():
                            worker.kill()
                if isinstance(found, str):
                    refused = found
            yield system, fabric, refused or found


def plot(times: Mapping[str, Sequence[Measured]], workload: str, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4.5))
    for name, own in times.items():
        system, workers = registry[name], [each.workers for each in own]
        seconds = [each.cpu_s for each in own]
        label = f"{system.title} (n^{exponent(workers[1:], seconds[1:]):.2f})"
        axes.loglog(workers, seconds, marker=system.marker, color=system.colour, label=label)
    axes.set_xlabel("workers")
    axes.set_ylabel("seconds on one core")
    axes.set_title(f"One simulated iteration of {workload} on a fat-tree")
    axes.legend(fontsize="small")
    axes.grid(which="major", alpha=0.3)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--k", type=int, nargs="+", default=[4, 8, 16, 32])
    parser.add_argument("--leaves", type=int, nargs="*", default=[512])
    parser.add_argument("--systems", nargs="+", default=list(registry), choices=list(registry))
    parser.add_argument("--workload", default="resnet50")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds for one measurement")
    parser.add_argument("--figure", type=Path)
    asked = parser.parse_args()
    trees = [f"fat-tree {k}" for k in asked.k]
    fabrics = trees + [f"leaf-spine {leaves}" for leaves in asked.leaves]
    times: dict[str, list[Measured]] = {name: [] for name in asked.systems}
    together = dict.fromkeys(fabrics, 0.0)
    print(f"{'system':18} {'fabric':16} {'workers':>7} {'iteration':>11} {'time':>9} {'memory':>9}")
    for name, fabric, found in measurements(asked.systems, asked.workload, fabrics, asked.limit):
        if isinstance(found, str):
            print(f"{name:18} {fabric:16} {found}", flush=True)
            continue
        together[fabric] += found.cpu_s
        if fabric in trees:
            times[name].append(found)
        print(
            f"{name:18} {fabric:16} {found.workers:7} {found.iteration_s:9.3f} s"
            f" {found.cpu_s:7.2f} s {found.peak_gib:5.2f} GiB",
            flush=True,
        )
    for fabric, seconds in together.items():
        print(f"all on {fabric}: {seconds:.1f} s")
    fitted = {name: own for name, own in times.items() if len(own) > 2}
    for name, own in fitted.items():
        law = exponent([each.workers for each in own[1:]], [each.cpu_s for each in own[1:]])
        print(f"{name}: time grows as workers^{law:.2f}")
    if asked.figure is not None:
        plot(fitted, asked.workload, asked.figure)


if __name__ == "__main__":
    main()
