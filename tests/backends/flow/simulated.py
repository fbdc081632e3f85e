"""Jobs for the simulator, from the name of a system."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from testbed.backends.flow.scenario import Job
from testbed.plan import cost as model
from testbed.plan.units import Unit, cut
from testbed.systems import Assignment, registry
from testbed.topology.fabric import Fabric
from testbed.workload.buckets import fill
from testbed.workload.catalogue import load

SUMMING = ("ps", "ring", "hierarchical-ring", "atp", "switchml", "netreduce", "rina", "grid")
SIMPLE = {"ps": {"servers": "dedicated"}, "switchml": {"without_ina": "server"}}
"""Options with which only the servers that a test names sum."""

UPDATING = ("asp", "ssp", "r2sp")


def plan(name: str, fabric: Fabric, workers: int, servers: int = 1, first: int = 0, **options: Any):
    """A plan for ``workers`` hosts, starting with number ``first``; servers are the last hosts."""
    system = registry[name]
    hosts = fabric.hosts
    taken = hosts[len(hosts) - servers :] if system.servers[1] else ()
    settled = system.settle(SIMPLE.get(name, {}) | options)
    assignment = Assignment(hosts[first : first + workers], taken, settled, load("resnet50"))
    return system.plan(assignment, fabric)


def units(plan, sizes: Sequence[int], ready: Sequence[float] | None = None) -> tuple[Unit, ...]:
    """Units of ``sizes`` bytes, rounded so that the plan can cut them evenly."""
    whole = plan.chunks * 256
    elements = [max(whole, size // 4 // whole * whole) for size in sizes]
    times = ready or [0.0] * len(sizes)
    return tuple(
        Unit(index, count, at)
        for index, (count, at) in enumerate(zip(elements, times, strict=True))
    )


def job(plan, sizes=(64_000_000,), ready=None, compute_s=0.0, iterations=1, **others) -> Job:
    paces = others.pop("paces", ((1.0,) * iterations,) * plan.workers)
    return Job(plan, units(plan, sizes, ready), compute_s, paces, **others)


def trained(name: str, fabric: Fabric, workers: int, trace: str = "resnet50", **others) -> Job:
    """A whole workload, cut into buckets and partitions as in a deployment."""
    made = plan(name, fabric, workers, **others.pop("options", {}))
    known = load(trace)
    pieces = cut(fill(known, deferred=made.deferred), made, 1)
    paces = ((1.0,) * others.pop("iterations", 1),) * workers
    return Job(made, pieces, known.compute_s, paces, **others)


def expected(job: Job, fabric: Fabric) -> model.Expected:
    """The closed form of one iteration."""
    pieces = [(unit.ready_s, 4 * unit.elements) for unit in job.units]
    form = model.ClosedForm(job.plan, fabric, job.step_s)
    return form.iteration(model.Timing(pieces, job.compute_s))
