"""The cost of replaying a workload: loading it, and iterations on a network without limits.

    .venv/bin/python benchmarks/replay.py [--dilation 200] [--scale 1/128] [--iterations 7]
                                          [NAME ...]

Two workers sum every workload in a ring over loopback, which stands for an infinitely fast network:
nothing limits the rate, and nothing delays or loses packets. So an iteration should take as long as
the trace computes, and at most 2 % longer. Each workload is run with DDP's barrier (``whole``) and
with a forward pass that waits only for the tensors that it needs, in layer-priority order
(``by_tensor``). Times are medians, converted to those of the real cluster. Loading should take less
than 100 ms. Other load on the machine affects all times.
"""

from __future__ import annotations

import argparse
import os
import time
from itertools import pairwise
from statistics import median

from testbed.deployment.deploy import DeployedJob, deploy
from testbed.deployment.tasks import tasks
from testbed.experiment.schema import Experiment
from testbed.hosts.launcher import Launcher
from testbed.placement.fabric import build_fabric
from testbed.units import parse_ratio
from testbed.workload.catalogue import load, names

AIM, LOADING_AIM_S = 0.02, 0.1
MODES = {"whole": "backward", "by_tensor": "priority"}
# Ports are fixed, so each process uses its own loopback addresses.
NET = f"127.{os.getpid() // 250 % 250 + 2}.{os.getpid() % 250}"


def loading_s(name: str) -> float:
    took = []
    for _ in range(9):
        start = time.perf_counter()
        load(name)
        took.append(time.perf_counter() - start)
    return median(took)


def deployed(name: str, forward: str, scale: float, iterations: int) -> DeployedJob:
    job = {
        "system": "ring", "workload": name, "workers": 2, "iterations": iterations, "warmup": 1,
        "forward": forward, "order": MODES[forward],
    }  # fmt: skip
    fabric = {
        "kind": "leaf-spine", "spines": 1, "leaves": 1, "hosts_per_leaf": 2, "host_rate": "100Gbit",
    }  # fmt: skip
    experiment = Experiment.model_validate(
        {
            "schema_version": 1, "name": "replay", "fabric": fabric, "jobs": [job],
            "emulation": {"scale": scale},
        }
    )  # fmt: skip
    return deploy(experiment, build_fabric(experiment)).jobs[0]


def iteration_s(job: DeployedJob, dilation: float) -> float:
    """Median length of the measured iterations, on the emulator's clock."""
    addresses = {host: f"{NET}.{rank + 1}" for rank, host in enumerate(job.plan.hosts)}
    told = tasks(job, (), addresses, dilation, seed=1)
    with Launcher(told, [None] * len(told)) as launcher:
        outcomes = launcher.run(timeout=600)
    if wrong := sum(outcome.wrong for outcome in outcomes):
        raise SystemExit(f"{job.job.workload}: {wrong} values of sums are wrong")
    ends = [
        max(each.end for each in ranks)
        for ranks in zip(*(each.iterations for each in outcomes), strict=True)
    ]
    return float(median(after - before for before, after in pairwise(ends)))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", default=names())
    parser.add_argument("--dilation", type=float, default=200.0)
    parser.add_argument("--scale", type=parse_ratio, default=1 / 128)
    parser.add_argument("--iterations", type=int, default=7)
    told = parser.parse_args()
    print(f"{'workload':12} {'loading':>9} {'computes':>10}", end="")
    print("".join(f" {f'{mode}, {order}':>28}" for mode, order in MODES.items()))
    worst, slowest = 0.0, 0.0
    for name in told.names:
        took = loading_s(name)
        slowest = max(slowest, took)
        print(f"{name:12} {took * 1e3:6.1f} ms {load(name).compute_s * 1e3:7.1f} ms", end="")
        for mode in MODES:
            job = deployed(name, mode, told.scale, told.iterations)
            ideal = job.compute_s * told.dilation
            length = iteration_s(job, told.dilation)
            worst = max(worst, length / ideal - 1)
            real = length / told.dilation / told.scale
            print(f" {real * 1e3:17.1f} ms {length / ideal - 1:+7.2%}", end="", flush=True)
        print()
    print(f"worst: iteration {worst:+.2%} (aim {AIM:.0%}), ", end="")
    print(f"loading {slowest * 1e3:.1f} ms (aim {LOADING_AIM_S * 1e3:.0f} ms);", end="")
    print(f" load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
