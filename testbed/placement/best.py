"""The INA switches that are best for an experiment's jobs, by `testbed.placement.search`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from testbed.backends.flow import scenario
from testbed.backends.flow.scenario import Job
from testbed.deployment.deploy import DeployedJob, deploy
from testbed.deployment.errors import DeploymentError
from testbed.deployment.memory import allocate
from testbed.experiment.schema import Experiment
from testbed.placement.search import EVEN, Placed, place
from testbed.topology.fabric import Fabric


def best_switches(experiment: Experiment, fabric: Fabric, budget: int) -> Placed:
    """The best choice of at most ``budget`` programmable switches of ``fabric`` for a cell's jobs.

    The experiment's own choice is ignored; its ``ina_tier`` says which switches are candidates.
    Times are scaled. Raises DeploymentError if the jobs cannot run.
    """

    def jobs(fabric: Fabric) -> Sequence[Job]:
        try:
            deployed = deploy(experiment, fabric).jobs
            allocate([(job.plan, job.window) for job in deployed], fabric.slots)
            return [_measured(job) for job in deployed]
        except DeploymentError as error:
            raise ValueError(str(error)) from error

    candidates = fabric.switches if experiment.fabric.ina_tier == "any" else None
    try:
        assumptions = replace(EVEN, scale=float(experiment.emulation.scale))
        return place(fabric, budget, jobs, candidates, assumptions=assumptions)
    except ValueError as error:
        raise DeploymentError(str(error)) from error


def _measured(job: DeployedJob) -> Job:
    """The job without its warm-up iterations."""
    made = scenario.of(job)
    return replace(made, paces=tuple(own[job.job.warmup :] for own in made.paces))
