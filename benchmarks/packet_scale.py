"""Time and memory of the packet back end with many workers: one iteration of every system.

    python -m benchmarks.packet_scale [--workers 12 128 1024] [--systems ring ...]

12 workers are on a k = 4 and 128 on a k = 8 fat-tree at scale 1. Each edge switch has one host
more, for servers. 1,024 workers at scale 1/16 are on a k = 10 fat-tree with racks of 32: in smaller
or larger racks, some system's switch has more than 64 children, and a packet has a bit for each.
All ToRs aggregate. TopoOpt has circuits instead. Each measurement is a process of its own on one
core. Its time is processor time of planning and running, without imports. Memory is the peak of the
process. What takes three times the time or twice the memory that it may take is stopped. Messages
are those between ranks, without what trees carry; a hop is a packet put on a link.
"""

from __future__ import annotations

import argparse
import resource
from collections.abc import Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time

from benchmarks.one_process import one_process
from testbed.backends.packet import backend
from testbed.campaign.planning import check_trees
from testbed.deployment.deploy import Deployment, deploy
from testbed.deployment.errors import DeploymentError
from testbed.deployment.experiments import reads
from testbed.located import write
from testbed.placement.fabric import build_fabric
from testbed.plan.program import Send, Update
from testbed.systems import registry


@dataclass(frozen=True)
class Size:
    """What is run for a number of workers, and the most time and memory that it may take."""

    k: int
    hosts_per_edge: int
    scale: str
    aim_s: float
    aim_gib: float


SIZES = {
    12: Size(4, 3, "1", 5, 8),
    128: Size(8, 5, "1", 60, 8),
    1024: Size(10, 32, "1/16", 300, 8),
}
TREE = {"kind": "fat-tree", "host_rate": "10Gbit", "queue": "512KB", "ina": "all"}
CIRCUITS = {"kind": "circuits", "host_rate": "2.5Gbit", "queue": "2MB", "host_links": 4}
CASES: Sequence[tuple[str, Mapping[str, str]]] = [
    *((name, {}) for name in registry),
    ("ps", {"servers": "dedicated"}),
]
"""Systems and their options. PS is there twice: on all machines, and as the incast of all
workers."""

MESSAGES = {Send: 1, Update: 2}
"""How many messages an operation sends. An update is answered with parameters."""


@dataclass(frozen=True)
class Measured:
    jct_s: float
    hops: int
    cpu_s: float
    peak_gib: float


def experiment(system: str, options: Mapping[str, str], workers: int) -> str:
    """The text of the experiment file."""
    size = SIZES[workers]
    fabric: dict[str, object] = TREE | {"k": size.k, "hosts_per_edge": size.hosts_per_edge}
    if system == "topoopt":
        fabric = CIRCUITS | {"hosts": workers}
    job = {"system": system, "options": dict(options), "workload": "resnet50", "workers": workers}
    return write(
        {
            "schema_version": 1,
            "name": "packet-scale",
            "backend": "packet",
            "fabric": fabric | {"link_delay": "1us"},
            "jobs": [job | {"iterations": 1, "warmup": 0}],
            "emulation": {"scale": size.scale},
        }
    )


def bound(size: Size) -> None:
    """Have this process end at three times the time and twice the memory of ``size``."""
    resource.setrlimit(resource.RLIMIT_CPU, (int(3 * size.aim_s),) * 2)
    resource.setrlimit(resource.RLIMIT_AS, (int(2 * size.aim_gib * 2**30),) * 2)


def planned(system: str, options: Mapping[str, str], workers: int) -> Deployment:
    asked = reads(experiment(system, options, workers))
    deployment = deploy(asked, build_fabric(asked))
    check_trees(deployment)
    return deployment


def messages(system: str, options: Mapping[str, str], workers: int) -> int:
    """Messages of an iteration."""
    (job,) = planned(system, options, workers).jobs
    sent = [
        sum(MESSAGES.get(type(operation), 0) for program in each.programs for operation in program)
        for each, _ in job.plan.collectives
    ]
    return sum(sent[unit.gathers] for unit in job.units)


def measure(system: str, options: Mapping[str, str], workers: int, logs: Path) -> Measured:
    bound(SIZES[workers])
    before = process_time()
    deployment = planned(system, options, workers)
    found = backend.run(deployment, logs)
    cpu_s = process_time() - before
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    jct_s = found.seconds / found.dilation / deployment.experiment.emulation.scale
    hops = sum(port.sent for port in found.ports.values())
    return Measured(jct_s, hops, cpu_s, peak)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--workers", type=int, nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--systems", nargs="+", default=list(registry), choices=list(registry))
    asked = parser.parse_args()
    columns = f"{'messages':>10} {'hops':>11} {'JCT':>10} {'processor':>10} {'memory':>9}"
    print(f"{'system':28} {'workers':>7} {columns}")
    for workers in asked.workers:
        aims = SIZES[workers]
        for system, options in (each for each in CASES if each[0] in asked.systems):
            case = system, options, workers
            name = " ".join([system, *(f"{key}={value}" for key, value in options.items())])
            try:
                with one_process() as process:
                    sent = process.submit(messages, *case).result()
                print(f"{name:28} {workers:7} {sent:10}", end=" ", flush=True)
                # The folder is this process's, because the other one may be ended by its limits.
                with one_process() as process, TemporaryDirectory() as logs:
                    found = process.submit(measure, *case, Path(logs)).result()
            except (ValueError, DeploymentError) as error:
                print(f"{name:28} {workers:7} {error}", flush=True)
                continue
            except (MemoryError, BrokenProcessPool):
                most = f"{3 * aims.aim_s:.0f} s or {2 * aims.aim_gib:.0f} GiB"
                print(f"not finished with {most}", flush=True)
                continue
            over = found.cpu_s > aims.aim_s or found.peak_gib > aims.aim_gib
            print(
                f"{found.hops:11} {found.jct_s:8.3f} s {found.cpu_s:8.1f} s"
                f" {found.peak_gib:5.2f} GiB{'  over the aim' if over else ''}",
                flush=True,
            )


if __name__ == "__main__":
    main()
