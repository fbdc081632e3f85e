"""The cost of observing the machine during a run: a fabric is up, and only the watch does anything.

    sudo .venv/bin/python -m benchmarks.sampling [--seconds 10]

Processor time includes the kernel's share. The bound is 2 % of the machine.
"""

from __future__ import annotations

import argparse
import os
import time

from testbed.backends.emulation.network import Network
from testbed.backends.emulation.rates import Rates, ports
from testbed.backends.emulation.sampler import Sampler
from testbed.topology.builders import fat_tree, leaf_spine
from testbed.topology.fabric import Fabric

WATCH_S = 0.2
"""Seconds between two calls of a run's watch function."""


def cost(fabric: Fabric, seconds: float) -> float:
    """The share of one core that the watch needs."""
    with Network(fabric, 1.0, {}) as network:
        ends = ports(fabric, network.addressing, 1.0, network.superframe)
        sampler, rates = Sampler(), Rates(ends, network.queues)
        sampler.start()
        rates.start()
        began, spent = time.monotonic(), time.process_time()
        while time.monotonic() < began + seconds:
            time.sleep(WATCH_S)
            sampler.sample()
            rates.sample()
            network.dead()
        return (time.process_time() - spent) / (time.monotonic() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=10.0)
    arguments = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    print(f"{'fabric':32} {'nodes':>5} {'of a core':>10} {'of the machine':>15}")
    rate, queue = 1e7, 256_000
    for fabric in (
        leaf_spine(2, 2, 5, rate, rate, queue),
        leaf_spine(2, 4, 4, rate, rate, queue),
        fat_tree(4, 2, rate, rate, queue),
        leaf_spine(4, 8, 8, rate, rate, queue),
    ):
        share = cost(fabric, arguments.seconds)
        print(f"{fabric.name:32} {len(fabric.nodes):5} {share:10.2%} {share / cores:15.2%}")


if __name__ == "__main__":
    main()
