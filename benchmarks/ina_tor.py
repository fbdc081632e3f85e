"""How fast one INA ToR is: packets through it, native and BMv2 side by side, and all-reduces.

    sudo .venv/bin/python benchmarks/ina_tor.py [--seconds 3] [--no-bmv2]

Everything is unshaped and lossless: a window of fragments is in flight, and a sum that comes
back lets the next fragment out. Ratios within one run are what to quote; machines are noisy.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

import numpy as np

from testbed.dataplane import bmv2, wire
from testbed.dataplane.control import Exact, Replica, TableEntry
from testbed.dataplane.entries import Allocation
from testbed.emulation import targets
from testbed.emulation.network import Network
from testbed.endpoint.batch import BatchSocket
from testbed.endpoint.crew import Crew
from testbed.endpoint.process import enter
from testbed.endpoint.root import hashed_slots
from testbed.endpoint.task import Aggregation, Task, Unit
from testbed.plan.trees import Tree
from testbed.systems import Assignment, registry
from testbed.topology.builders import leaf_spine
from testbed.workload.gradients import Gradients

FAN_IN = 32
JOB = 7
WINDOW = 384
TICK = 0.001
COMPUTE = 0.5
"""Seconds before each all-reduce in which the last one's sums are checked."""


def packets(target: str, seconds: float, in_flight: int) -> tuple[float, float]:
    """Packets/s into a switch that sums 32 contributions, and its CPU microseconds a packet.

    One host plays all 32 workers and the server: a fragment is 32 packets of data and, when
    the sum is back, the result that frees the slot.
    """
    fabric = leaf_spine(1, 1, 1, 1e10, 1e10, 10**6)
    with tempfile.TemporaryDirectory() as logs:
        switch = targets.make(target, Path(logs) / "t0.log")
        # A tree that names the switch, so that its routes are installed; the job is our own.
        tree = Tree("h0", {}, {"t0": "h0"})
        with Network(
            fabric, None, {"t0": switch}, [Allocation(0, 0, tree, 0, wire.SLOTS)]
        ) as network:
            addressing = network.addressing
            own, host = (_number(addressing.ip(node)) for node in ("t0", "h0"))
            mac, host_mac = addressing.mac("t0"), addressing.mac("h0")
            everyone = (1 << FAN_IN) - 1
            switch.multicast_group(JOB, [Replica(1, JOB)])
            switch.insert(
                TableEntry(
                    "InaEgress.replicas", (Exact(JOB),), "InaEgress.address", (host, mac, host_mac)
                )
            )
            switch.insert(
                TableEntry(
                    "InaIngress.jobs",
                    (Exact(own), Exact(JOB)),
                    "InaIngress.aggregate",
                    (everyone, host, own, JOB),
                )
            )
            read, write = os.pipe()
            child = os.fork()
            if child == 0:
                enter(network.namespace("h0"))
                counted = _drive(addressing.ip("h0"), addressing.ip("t0"), in_flight, seconds)
                os.write(write, str(counted).encode())
                os._exit(0)
            before, began = _cpu_s(switch), time.monotonic()
            os.waitpid(child, 0)
            took, spent = time.monotonic() - began, _cpu_s(switch) - before
            counted = int(os.read(read, 100))
            os.close(read)
            os.close(write)
    return counted / took, spent / counted * 1e6


def _drive(own: str, switch: str, in_flight: int, seconds: float) -> int:
    """Send fragments for ``seconds``; return how many packets the switch must have taken."""
    socket = BatchSocket(own, batch=1024, burst=64)
    per_fragment = FAN_IN + 1
    headers = np.zeros(in_flight * per_fragment, wire.HEADER).reshape(in_flight, per_fragment)
    headers["tree"] = JOB
    headers["kind"] = wire.KIND_DATA
    headers["kind"][:, 0] = wire.KIND_RESULT  # frees the slot from the fragment before
    headers["bitmap"][:, 1:] = 1 << np.arange(FAN_IN, dtype=np.uint64)
    headers["slot"] = np.arange(in_flight)[:, None]
    values = np.ones((in_flight * per_fragment, wire.VALUES), ">i4")
    sequence = np.arange(in_flight)
    truth = np.full(wire.VALUES, FAN_IN, ">i4").tobytes()
    done = 0
    wanted = np.arange(in_flight)
    until = time.monotonic() + seconds
    heard = time.monotonic()
    while (now := time.monotonic()) < until:
        if len(wanted):
            chosen = headers[wanted]
            chosen["sequence"][:, 1:] = sequence[wanted][:, None]
            chosen["sequence"][:, 0] = sequence[wanted] - in_flight
            sequence[wanted] += in_flight
            flat = chosen.reshape(-1)
            sent = 0
            while sent < len(flat):
                sent += socket.send(flat[sent:], values[: len(flat) - sent], switch)
        arrived = socket.receive()
        sums = arrived[arrived["kind"] == wire.KIND_DATA]
        if len(sums):
            assert sums[0]["values"].tobytes() == truth, "wrong sum"
            heard = now
        elif now - heard > 1:
            raise SystemExit("packets were lost: nothing has come back for a second")
        wanted = sums["slot"].astype(int)
        done += len(sums)
    return done * per_fragment


def all_reduce(target: str, workers: int, fragments: int, iterations: int = 5) -> tuple[float, int]:
    """Gradient Mbit/s per worker of ATP all-reduces through one ToR, and fragments resent."""
    fabric = leaf_spine(1, 1, workers + 1, 1e10, 1e10, 10**6).with_ina(["t0"])
    placement = Assignment(fabric.hosts[:workers], fabric.hosts[workers:])
    plan = registry["atp"].plan(placement, fabric)
    (tree,) = plan.trees
    elements = fragments * wire.VALUES
    gradients = Gradients(1, workers, elements)
    gradients.expected_total()
    for rank in range(workers):
        gradients.base(rank)
    with tempfile.TemporaryDirectory() as logs:
        switch = targets.make(target, Path(logs) / "t0.log")
        with Network(
            fabric, None, {"t0": switch}, [Allocation(0, 0, tree, 0, wire.SLOTS)]
        ) as network:
            addresses = tuple(network.addressing.ip(host) for host in plan.hosts)
            window = WINDOW
            aggregation = Aggregation(
                job=0,
                slots=hashed_slots(0, window, fabric.slots),
                parent=network.addressing.ip("t0"),
                children=(network.addressing.ip("t0"),),
                tick_s=TICK,
                burst=64,
            )
            units = (Unit(0, 0, elements, COMPUTE),)
            tasks = [
                Task(plan, rank, 0, addresses, units, COMPUTE, iterations, gradients, aggregation)
                for rank in plan.ranks
            ]
            with Crew(tasks, [network.namespace(host) for host in plan.hosts]) as crew:
                outcomes = crew.run(timeout=120)
    ranks = outcomes[:workers]
    assert all(each.wrong == 0 and each.checked == iterations * elements for each in ranks)
    # The first iteration touches all memory for the first time.
    times = [
        max(each.iterations[i].end - each.iterations[i].compute_end for each in ranks)
        for i in range(1, iterations)
    ]
    return elements * 32 / float(np.median(times)) / 1e6, sum(r.retransmitted for r in ranks)


def _number(ip: str) -> int:
    return int.from_bytes(bytes(map(int, ip.split("."))), "big")


def _cpu_s(switch: targets.SwitchTarget) -> float:
    fields = Path(f"/proc/{switch.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=3.0, help="of each measurement")
    parser.add_argument("--no-bmv2", action="store_true", help="only the native target")
    options = parser.parse_args()
    chosen = ["native"] if options.no_bmv2 or not bmv2.installed() else ["native", "bmv2"]
    if "bmv2" not in chosen:
        print("BMv2 is not measured: simple_switch is not installed or not wanted")
    targets.prepare("native")
    rates = {}
    print("through one ToR, 256 values a packet, fan-in 32")
    for target in chosen:
        rate, cost = packets(target, options.seconds, 56 if target == "native" else 2)
        rates[target] = rate
        gradients = rate * wire.VALUES * 32 / 1e9
        print(f"  {target:7} {rate:10,.0f} packets/s in  {gradients:6.2f} Gbit/s of gradients"
              f"  {cost:6.2f} µs of CPU a packet")  # fmt: skip
    if len(rates) == 2:
        print(f"  native is {rates['native'] / rates['bmv2']:.1f} times as fast as bmv2")
    print("ATP all-reduce through one ToR, every sum checked")
    for target in chosen:
        for workers, fragments in ((4, 20_000), (8, 10_000)):
            size = fragments if target == "native" else fragments // 10
            speed, resent = all_reduce(target, workers, size)
            print(f"  {target:7} {workers} workers  {speed:7.1f} Mbit/s per worker"
                  f"  ({resent} fragments resent)")  # fmt: skip


if __name__ == "__main__":
    main()
