"""How fast the packet back end is, in packet-hops/s on one core: TCP, and INA with the P4 program.

    python -m benchmarks.packet_speed [--size 16MB] [--rounds 3] [--only NAME]
                                      [--htsim PATH/htsim_roce] [--ns3]

A packet-hop is a packet put on a link. Each measurement is a process of its own. Its time is
processor time, without planning and imports. Cases take turns within a round; figures are medians
of the rounds. TCP on a fat-tree of 16 hosts is timed only in the core, and only data packets count,
as for other simulators. Jobs of 8 workers on one switch are timed twice: in C (links, TCP, engines,
P4 program), and as a whole, with ranks, gradients and the check of sums. All their packets count.

Other simulators run the same flows in the same rounds: htsim's RoCE (its program, built from its
sources), and ns-3's TCP (``pip install ns3``; 1/8 of the size).
"""

from __future__ import annotations

import argparse
import resource
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import process_time
from typing import NamedTuple
from unittest.mock import patch

from benchmarks import ns3_model
from benchmarks.one_process import in_a_process
from benchmarks.tcp_traffic import Traffic, ours, theirs
from testbed.backends.packet import backend
from testbed.backends.packet.simulation import Kind, Simulation
from testbed.deployment.deploy import deploy
from testbed.deployment.experiments import reads
from testbed.located import write
from testbed.placement.fabric import build_fabric
from testbed.topology.builders import fat_tree
from testbed.units import parse_size

SYSTEMS = ("atp", "switchml", "rina", "netreduce", "ring", "ps")
WORKERS, RATE, QUEUE = 8, 1e10, 256_000
NS3_SHARE = 8
HTSIM_FRAME = 1500
AIM, OF_AIM = 3e6, ("atp", "switchml")


class Speed(NamedTuple):
    """``hops``: those of data packets for flows, those of all packets for jobs."""

    hops: int
    core_s: float
    all_s: float


class Counts:
    """Counts the hops of simulations and processor time in C, as long as it patches their class."""

    def __init__(self) -> None:
        self.hops, self.core_s = 0, 0.0
        self._run, self._exit = Simulation.run, Simulation.__exit__

    def run(self, simulation: Simulation, until: int) -> tuple[Kind, int, int] | None:
        before = process_time()
        found = self._run(simulation, until)
        self.core_s += process_time() - before
        return found

    def exit(self, simulation: Simulation, *error: object) -> None:
        self.hops += simulation.hops
        self._exit(simulation, *error)


def job(system: str, size: int) -> Speed:
    """One iteration of an all-reduce of ``size`` bytes, at scale 1."""
    experiment = reads(
        write(
            {
                "schema_version": 1,
                "name": "speed",
                "backend": "packet",
                "fabric": {
                    "kind": "leaf-spine",
                    "spines": 1,
                    "leaves": 1,
                    "hosts_per_leaf": WORKERS + 1,
                    "host_rate": "10Gbit",
                    "queue": "256KB",
                    "ina": "all",
                },
                "jobs": [
                    {
                        "system": system,
                        "workload": f"synthetic/{size // 10**6}MB",
                        "workers": WORKERS,
                        "iterations": 1,
                        "warmup": 0,
                    }
                ],
                "emulation": {"scale": 1},
            }
        )
    )
    deployment = deploy(experiment, build_fabric(experiment))
    counts = Counts()
    with (
        TemporaryDirectory() as folder,
        patch.object(Simulation, "run", lambda own, until: counts.run(own, until)),
        patch.object(Simulation, "__exit__", lambda own, *error: counts.exit(own, *error)),
    ):
        before = process_time()
        backend.run(deployment, Path(folder))
        return Speed(counts.hops, counts.core_s, process_time() - before)


def flows(size: int) -> Iterator[Traffic]:
    tree = fat_tree(4, 2, RATE, RATE, QUEUE)
    hosts = tree.hosts
    yield Traffic("incast of 8", tree, size, flows=[(host, hosts[-1]) for host in hosts[:8]])
    neighbours = list(zip(hosts, hosts[1:] + hosts[:1], strict=True))
    yield Traffic("ring of 16", tree, size, flows=neighbours)


def core(traffic: Traffic) -> Speed:
    cpu_s = ours(traffic).cpu_s
    return Speed(traffic.data_hops(), cpu_s, cpu_s)


def ns3(traffic: Traffic) -> Speed:
    part = replace(traffic, size=traffic.size // NS3_SHARE)
    cpu_s = theirs(part, "TcpCubic").cpu_s
    return Speed(part.data_hops(), cpu_s, cpu_s)


def htsim(traffic: Traffic, program: Path) -> Speed:
    hosts = traffic.fabric.hosts
    lines = [f"Nodes {len(hosts)}", f"Connections {len(traffic.flows)}"]
    for number, (source, to) in enumerate(traffic.flows, 1):
        ends = f"{hosts.index(source)}->{hosts.index(to)}"
        lines.append(f"{ends} id {number} start 0 size {traffic.size}")
    with TemporaryDirectory() as folder:
        matrix = Path(folder, "flows.cm")
        matrix.write_text("\n".join(lines) + "\n")
        command = [
            str(program.resolve()), "-o", f"{folder}/log",
            "-nodes", str(len(hosts)), "-tm", str(matrix),
            "-linkspeed", str(round(RATE / 1e6)), "-mtu", str(HTSIM_FRAME), "-hop_latency", "1",
            "-q", str(QUEUE // HTSIM_FRAME), "-strat", "ecmp_host", "-paths", "16",
            "-end", "10000000",
        ]  # fmt: skip
        told = subprocess.run(
            command, check=True, capture_output=True, text=True, cwd=folder
        ).stdout
    if told.count(" finished at ") != len(traffic.flows):
        raise SystemExit(f"htsim: flows did not end: {told[-500:]}")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = used.ru_utime + used.ru_stime
    hops = traffic.data_hops(HTSIM_FRAME)
    return Speed(hops, cpu_s, cpu_s)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--size", type=parse_size, default=64_000_000, help="of a flow, or a gradient"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="measurements whose name contains this")
    parser.add_argument("--htsim", type=Path, help="htsim's program for RoCE")
    parser.add_argument("--ns3", action="store_true", help="ns-3's TCP as well")
    asked = parser.parse_args()
    forked = partial(in_a_process, start="fork")
    todo: dict[str, Callable[[], Speed]] = {}
    for traffic in flows(asked.size):
        todo[f"TCP {traffic.name}"] = partial(forked, core, traffic)
        if asked.htsim is not None:
            todo[f"htsim RoCE {traffic.name}"] = partial(forked, htsim, traffic, asked.htsim)
        if asked.ns3:
            todo[f"ns-3 TCP {traffic.name}"] = partial(ns3, traffic)
    for system in SYSTEMS:
        todo[f"job {system}"] = partial(forked, job, system, asked.size)
    todo = {name: measure for name, measure in todo.items() if asked.only in name}
    if asked.ns3:
        ns3_model.load()
    found: dict[str, list[Speed]] = {name: [] for name in todo}
    for _ in range(asked.rounds):
        for name, measure in todo.items():
            found[name].append(measure())
    print(f"{'measurement':28} {'hops':>10} {'in C':>8} {'in all':>8}   million hops/s")
    rates = {}
    for name, speeds in found.items():
        rates[name] = median(each.hops / each.core_s for each in speeds)
        whole = median(each.hops / each.all_s for each in speeds)
        print(f"{name:28} {speeds[0].hops:10} {rates[name] / 1e6:8.3f} {whole / 1e6:8.3f}")
    for name, rate in rates.items():
        for neighbour in ("htsim RoCE", "ns-3 TCP"):
            if (other := rates.get(name.replace("TCP", neighbour, 1))) and name.startswith("TCP"):
                print(f"{name} against {neighbour}: {rate / other:.1f} times")
    for system in OF_AIM:
        if (own := rates.get(f"job {system}")) is not None:
            print(f"{system}: {own / 1e6:.2f} million hops/s in C; aim {AIM / 1e6:g}")


if __name__ == "__main__":
    main()
