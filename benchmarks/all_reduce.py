"""All-reduces of the real endpoints through ToRs that aggregate; every sum is checked."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from benchmarks.one_switch import MTU, processor_s
from testbed import wire
from testbed.backends.emulation import targets
from testbed.backends.emulation.network import Network
from testbed.backends.links import shares
from testbed.deployment.memory import allocate
from testbed.deployment.tasks import role
from testbed.hosts.launcher import Launcher
from testbed.hosts.task import Task
from testbed.plan.units import Unit
from testbed.protocols.allocation import Window
from testbed.switches.compile import PROGRAMS
from testbed.systems import Assignment, registry
from testbed.topology.builders import leaf_spine
from testbed.topology.framing import LARGEST_SUPERFRAME
from testbed.workload.gradients import Gradients

COMPUTE = 0.3
"""Seconds of computation before each all-reduce. Meanwhile the sums of the previous one are
checked."""

TICK, BURST, PATIENCE = 0.001, LARGEST_SUPERFRAME, 25.0


@dataclass(frozen=True)
class Speed:
    """``mbit_s``: the gradient rate of the slowest worker. ``switch_us``: the switches' processor
    time per packet of a worker's gradient. ``resent``: retransmitted fragments. ``lost``: packets
    for which a switch or a socket had no room."""

    mbit_s: float
    switch_us: float
    resent: int
    lost: int


def all_reduce(
    system: str,
    target: str,
    workers: int,
    fragments: int,
    *,
    window: int,
    message: int = 0,
    loss: float = 0.0,
    rate: float | None = None,
    whole_frames: bool = False,
    racks: int = 1,
    values: int = wire.VALUES,
    iterations: int = 4,
) -> Speed:
    """The median over iterations, except the first one, which touches all memory for the first
    time.

    ``message`` is the number of fragments in a message (NetReduce). ``rate`` is the rate of the
    links in bit/s; None means as fast as the machine can. With ``whole_frames``, packets travel one
    by one, as on links with loss. Each of the ``racks`` has a ToR that aggregates. A packet has
    ``values`` values. Raises SystemExit if a sum is wrong.
    """
    servers = system == "atp"
    sizes = [workers // racks + servers, *(racks - 1) * [workers // racks]]
    fabric = leaf_spine(1, racks, sizes, rate or 1e10, 1e10, 10**6)
    fabric = fabric.with_ina(fabric.tors)
    fabric = replace(fabric, values=values, mtu=1500 if values <= wire.VALUES else MTU)
    hosts = fabric.hosts
    plan = registry[system].plan(Assignment(hosts[:workers], hosts[workers:]), fabric)
    size = Window(window, message)
    allocations = allocate([(plan, size)], fabric.slots)[0]
    elements = fragments * values
    gradients = Gradients(1, workers, elements)
    gradients.expected_total()
    for rank in range(workers):
        gradients.base(rank)
    with tempfile.TemporaryDirectory() as logs:
        switches = {
            tor: targets.make(target, Path(logs) / f"{tor}.log", PROGRAMS[values])
            for tor in fabric.tors
        }
        network = Network(
            fabric,
            rate and 1.0,
            switches,
            allocations,
            loss=shares(loss, fabric),
            whole_frames=whole_frames,
        )
        with network:
            addresses = {node: network.addressing.ip(node) for node in fabric.nodes}
            tasks = [
                Task(
                    plan=plan,
                    rank=rank,
                    job=0,
                    addresses=tuple(addresses[host] for host in plan.hosts),
                    units=(Unit(0, elements, COMPUTE),),
                    compute_s=COMPUTE,
                    gradients=gradients,
                    paces=(1.0,) * iterations,
                    trees=tuple(
                        role(plan, rank, each, addresses, size, fabric) for each in allocations
                    ),
                    tick_s=TICK,
                    values=values,
                    burst=BURST,
                )
                for rank in plan.ranks
            ]
            before = [processor_s(each.pid) for each in switches.values()]
            with Launcher(tasks, [network.namespace(host) for host in plan.hosts]) as launcher:
                outcomes = launcher.run(timeout=PATIENCE)
            spent = sum(processor_s(each.pid) for each in switches.values()) - sum(before)
            lost = sum(network.statistics().lost.values())
    members = outcomes[:workers]
    if any(each.wrong or each.checked != iterations * elements for each in members):
        raise SystemExit(f"{system} on {target}: wrong sums")
    times = [
        max(each.iterations[i].end - each.iterations[i].compute_end for each in members)
        for i in range(1, iterations)
    ]
    packets = workers * fragments * iterations
    resent = sum(each.retransmitted for each in outcomes)
    return Speed(elements * 32 / median(times) / 1e6, spent / packets * 1e6, resent, lost)
