"""A job that learns without PyTorch: parameters move towards each worker's own point."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import yaml
from tiny import data

from testbed.deployment.deploy import Deployment
from testbed.experiment.load import loads
from testbed.placement.deployments import Deployments
from testbed.training.places import places
from testbed.training.synchronous import Synchronous

SYNCHRONOUS = ["ring", "ps", "switchml", "atp", "rina", "netreduce", "grid"]


class Points:
    """Replaces `Computation`: the loss is half the squared distance to a point, which each batch
    has of its own."""

    def __init__(self, elements: int) -> None:
        self.elements = elements
        self.initial = np.zeros(elements, np.float32)
        self.given: list[tuple[int, int, np.ndarray]] = []

    def point(self, worker: int, iteration: int) -> np.ndarray:
        random = np.random.default_rng([1, worker, iteration])
        return random.standard_normal(self.elements, np.float32) + worker

    def gradient(self, parameters, worker, iteration):
        self.given.append((worker, iteration, parameters.copy()))
        away = parameters - self.point(worker, iteration)
        return away, float(np.square(away).mean() / 2)

    def evaluate(self, parameters):
        return float(np.abs(parameters).mean())


def deployed(
    folder: Path,
    system: str,
    backend: str = "simulate",
    correction: str = "local_gradient",
    **changes: object,
) -> Deployment:
    """A deployment of a job that learns; there is no script, and none is read."""
    asked = data(folder, backend=backend, jobs__0__system=system, **changes)
    asked["fabric"]["ina"] = "all"
    asked["jobs"][0]["training"] = {
        "evaluate_every": 1,
        "rate": 0.2,
        "correction": correction,
    }
    asked["jobs"][0] |= {"iterations": 4, "warmup": 0}
    asked["emulation"]["carried_values"] = "all"
    (folder / "tiny.py").touch()
    return Deployments().of(loads(yaml.safe_dump(asked)))


def learner(deployment: Deployment) -> tuple[Synchronous, Points]:
    (job,) = deployment.jobs
    points = Points(job.trace.elements)
    return Synchronous(job.job, job.plan.workers, places(job), points, 1), points
