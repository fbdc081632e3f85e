"""A cell on the simulator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from testbed import wire
from testbed.backends.flow import scenario
from testbed.backends.flow.scenario import Assumptions
from testbed.backends.flow.simulate import simulate
from testbed.campaign.link_loads import loads
from testbed.campaign.measurement import measure
from testbed.deployment.deploy import DeployedJob
from testbed.deployment.errors import DeploymentError
from testbed.deployment.memory import allocate
from testbed.experiment.schema import Experiment
from testbed.results import Iteration, LinkLoad, Row
from testbed.topology.fabric import Fabric


def run(
    experiment: Experiment, fabric: Fabric, jobs: Sequence[DeployedJob], rows: Sequence[Row]
) -> tuple[list[Row], list[Iteration], list[LinkLoad]]:
    """Simulate ``jobs`` side by side; their ``rows`` filled in, and what workers and links did.

    DeploymentError says what cannot be simulated, or would not fit the switches' memory.
    """
    emulation = experiment.emulation
    if emulation.loss:
        raise DeploymentError(
            f"emulation.loss: found {emulation.loss:g}, wanted 0 with backend: simulate, where no "
            "packet is lost; leave it out, or write backend: emulate"
        )
    if sum(len(job.plan.trees) for job in jobs) <= wire.MAX_TREES:
        allocate([(job.plan, job.window) for job in jobs], fabric.slots)
    timeline = simulate(
        fabric,
        [scenario.of(job) for job in jobs],
        Assumptions(seed=emulation.seed, scale=float(emulation.scale)),
    )
    filled: list[Row] = []
    iterations: list[Iteration] = []
    for job, row, workers in zip(jobs, rows, timeline.iterations, strict=True):
        # Sums are not made here: that the plan makes them was proved, and their times counted.
        row, own = measure(replace(row, verdict="valid"), job, workers, 1 / row.scale)
        filled.append(row)
        iterations += own
    begun = min(own[0].start for workers in timeline.iterations for own in workers)
    return filled, iterations, loads(rows[0], fabric, timeline.carried, timeline.end_s - begun)
