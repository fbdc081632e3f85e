"""The simulator as a back end: a deployment in, measurements out."""

from __future__ import annotations

from pathlib import Path

from testbed import wire
from testbed.backends.flow import scenario
from testbed.backends.flow.scenario import Assumptions
from testbed.backends.flow.simulate import simulate
from testbed.backends.links import shares
from testbed.backends.measurements import JobMeasurements, Measurements
from testbed.backends.recording import NOTHING, Recording
from testbed.deployment.deploy import Deployment
from testbed.deployment.errors import DeploymentError
from testbed.deployment.memory import allocate
from testbed.experiment.findings import shown


def run(deployment: Deployment, log_dir: Path, recording: Recording = NOTHING) -> Measurements:
    """Simulate the jobs of ``deployment`` side by side. There are no logs, and nothing is recorded.

    Raises DeploymentError, which says what cannot be simulated or does not fit into the switches'
    memory, and Stalled if a plan waits for ever.
    """
    emulation, jobs = deployment.experiment.emulation, deployment.jobs
    for name in ("loss", "duplication"):
        if shares(asked := getattr(emulation, name), deployment.fabric):
            raise DeploymentError(
                f"emulation.{name}: found {shown(asked)}, wanted 0 with backend: simulate, where"
                " there are no packets; leave it out, or write backend: packet or emulate"
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
        jobs=[
            JobMeasurements(workers, updates=updates)
            for workers, updates in zip(timeline.iterations, timeline.updates, strict=True)
        ],
        carried=timeline.carried,
        seconds=timeline.end_s
        - min(own[0].start for workers in timeline.iterations for own in workers),
    )
