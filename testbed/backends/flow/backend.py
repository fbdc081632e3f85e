"""The simulator as a back end: a deployment in, measurements out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from testbed import wire
from testbed.backends.flow import scenario
from testbed.backends.flow.scenario import Assumptions
from testbed.backends.flow.simulate import simulate
from testbed.backends.measurements import JobMeasurements, Measurements
from testbed.deployment.deploy import Deployment
from testbed.deployment.errors import DeploymentError
from testbed.deployment.memory import allocate


def run(deployment: Deployment, log_dir: Path, captures: Sequence[str] = ()) -> Measurements:
    """Simulate the jobs of ``deployment`` side by side. There are no logs or captures.

    DeploymentError says what cannot be simulated or does not fit the switches' memory. Stalled says
    that a plan waits for ever.
    """
    emulation, jobs = deployment.experiment.emulation, deployment.jobs
    if emulation.loss:
        raise DeploymentError(
            f"emulation.loss: found {emulation.loss:g}, wanted 0 with backend: simulate, where no "
            "packet is lost; leave it out, or write backend: emulate"
        )
    if sum(len(job.plan.trees) for job in jobs) <= wire.MAX_TREES:
        allocate([(job.plan, job.window) for job in jobs], deployment.fabric.slots)
    timeline = simulate(
        deployment.fabric,
        [scenario.of(job) for job in jobs],
        Assumptions(seed=emulation.seed, scale=float(emulation.scale)),
    )
    # Nothing is summed here: the checker has proved that the plan sums correctly.
    return Measurements(
        jobs=[JobMeasurements(workers) for workers in timeline.iterations],
        carried=timeline.carried,
        seconds=timeline.end_s
        - min(own[0].start for workers in timeline.iterations for own in workers),
    )
