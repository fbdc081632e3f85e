"""The table entries of the switches that sum."""

from __future__ import annotations

from testbed.deployment.deploy import Deployment
from testbed.deployment.memory import allocate
from testbed.switches.entries import SwitchEntries, derive
from testbed.topology.addressing import Addressing
from testbed.topology.paths import Routes


def routes(deployment: Deployment) -> Routes:
    """The flows of all jobs with a path of their own."""
    return {flow: route for job in deployment.jobs for flow, route in job.plan.routes.items()}


def tables(deployment: Deployment) -> dict[str, SwitchEntries]:
    """The entries of each switch that sums, by its name."""
    fabric, seed = deployment.fabric, deployment.experiment.emulation.seed
    jobs = [(job.plan, job.window) for job in deployment.jobs]
    every = [each for own in allocate(jobs, fabric.slots) for each in own]
    summing = sorted({switch for each in every for switch in each.tree.switches})
    addressing, routed = Addressing(fabric), routes(deployment)
    return {name: derive(name, fabric, addressing, every, seed, routed) for name in summing}
