"""Measures the capacity of this machine with small ordinary runs: ``ina-testbed calibrate``.

Costs depend on the load: the busier a process is, the more packets it finds when it is woken. So
link rates are chosen to make the machine about as busy as a valid run may.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import fmean

from testbed.backends.emulation import targets
from testbed.backends.emulation.backend import observe
from testbed.backends.emulation.network import EmulationError, require
from testbed.backends.emulation.run import Observation
from testbed.backends.emulation.sampler import Sampler
from testbed.deployment.deploy import deploy
from testbed.experiment.schema import Experiment
from testbed.hosts.launcher import RankFailed
from testbed.machine import calibration
from testbed.machine.calibration import Calibration, Costs
from testbed.placement.fabric import build_fabric
from testbed.provenance import now
from testbed.switches import bmv2
from testbed.systems import registry
from testbed.topology.addressing import Addressing
from testbed.topology.fabric import Fabric

RACKS, WORKERS = 2, 8
ITERATIONS, ITERATION_S = 3, 1.0

_BUSY, _TOO_IDLE, _TOO_BUSY = 0.55, 0.4, 0.7
_ATTEMPTS, _LARGEST_STEP = 3, 4.0
_QUIET = 0.15
_START_RATE = {"tcp": 80e6, "native": 50e6, "bmv2": 8e6}
_BYTES_ON_LINK = {"tcp": 2 * (WORKERS - 1) / WORKERS, "native": 1.0, "bmv2": 1.0}
"""Bytes that each worker sends per byte of gradient."""


def calibrate(say: Callable[[str], None], force: bool = False) -> Calibration:
    """Measure everything, in about a minute; ``say`` is called with each step.

    Raises EmulationError if nothing can be emulated here, or if the machine is busy and ``force``
    is not set.
    """
    require()
    before = _busy_before()
    if before > _QUIET and not force:
        raise EmulationError(
            f"found the machine {before:.0%} busy with something else, wanted at most {_QUIET:.0%},"
            " or its capacity would be underestimated; wait until it is idle, or use --force"
        )
    costs: dict[str, Costs] = {}
    late, bring_up, kept = [], [], []
    kinds = ["tcp", "native", *(["bmv2"] if bmv2.installed() else [])]
    for kind in kinds:
        say(f"measuring {kind} …")
        try:
            fabric, observed, took = _near_the_limit(kind)
        except (RankFailed, EmulationError) as error:
            raise EmulationError(f"{kind} cannot be measured: {error}") from error
        costs[kind] = _costs(fabric, observed, before)
        late.append(max(each.late_s for each in observed.outcomes))
        bring_up.append((took - observed.machine.seconds) / len(fabric.nodes))
        kept += [port.share for port in observed.ports.values() if port.share is not None]
    return Calibration(
        costs, max(late), fmean(bring_up), min([1.0, *kept]), now(), calibration.machine()
    )


def _busy_before() -> float:
    sampler = Sampler()
    sampler.start()
    time.sleep(1.0)
    sampler.stop()
    return 1 - min(sampler.idle)


def _near_the_limit(kind: str) -> tuple[Fabric, Observation, float]:
    """A run at a rate that makes the machine nearly as busy as a valid run may.

    Returns its fabric, what was observed, and how long all of it took (s).
    """
    rate = _START_RATE[kind]
    for _ in range(_ATTEMPTS):
        experiment = _experiment(kind, rate)
        fabric = build_fabric(experiment)
        targets.prepare(targets.choose(experiment.emulation.target))
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as logs:
            observed = observe(deploy(experiment, fabric), Path(logs))
        took = time.monotonic() - began
        busy = 1 - fmean(observed.machine.idle)
        if _TOO_IDLE <= busy <= _TOO_BUSY:
            break
        rate *= min(_LARGEST_STEP, max(1 / _LARGEST_STEP, _BUSY / busy))
    return fabric, observed, took


def _system(kind: str) -> str:
    wanted = "hosts" if kind == "tcp" else "switches"
    return next(name for name, system in registry.items() if system.calibrates == wanted)


def _experiment(kind: str, rate: float) -> Experiment:
    """Workers in racks that hardly compute, on links of ``rate`` bit/s."""
    size = rate / 8 * ITERATION_S / _BYTES_ON_LINK[kind]
    return Experiment.model_validate(
        {
            "schema_version": 1,
            "name": "calibration",
            "fabric": {
                "kind": "leaf-spine",
                "spines": 1,
                "leaves": RACKS,
                "hosts_per_leaf": WORKERS // RACKS,
                "host_rate": f"{rate / 1e6:.3f}Mbit",
                "queue": "256KB",
                "ina": "all",
            },
            "jobs": [
                {
                    "system": _system(kind),
                    "workload": f"synthetic/{size / 1e6:.3f}MB/1ms",
                    "workers": WORKERS,
                    "colocated": True,
                    "iterations": ITERATIONS - 1,
                    "warmup": 1,
                }
            ],
            "emulation": {
                "target": "bmv2" if kind == "bmv2" else "native",
                "dilation": 1,
                "scale": 1,
            },
        }
    )


def _costs(fabric: Fabric, observed: Observation, before: float) -> Costs:
    sent, machine = observed.packets.sent_bytes, observed.machine
    cores = len(os.sched_getaffinity(0))
    # Forwarding in the kernel is not charged to any process. Our processes' time is a lower bound.
    spent = max(observed.spent_s, (1 - fmean(machine.idle) - before) * cores * machine.seconds)

    def through(node: str) -> tuple[int, int]:
        """Bytes into a node and out of it."""
        neighbours = fabric.neighbours(node)
        return (
            sum(sent[Addressing.interface(each, node)] for each in neighbours),
            sum(sent[Addressing.interface(node, each)] for each in neighbours),
        )

    return Costs(
        link=spent / sum(sent.values()) * 1e9,
        rank=observed.rank_s / max(sum(through(host)) for host in fabric.hosts) * 1e9,
        switch=observed.switch_s / max(through(tor)[0] for tor in fabric.tors) * 1e9,
    )
