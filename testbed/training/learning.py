"""The jobs of a cell that learn: before its run, and after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from testbed.backends.measurements import JobMeasurements, Measurements
from testbed.deployment.deploy import DeployedJob, Deployment
from testbed.experiment.findings import listed
from testbed.training import script
from testbed.training.asynchronous import Asynchronous
from testbed.training.computation import Computation, check_trace
from testbed.training.curve import Point
from testbed.training.device import CPU, described
from testbed.training.errors import TrainingError, require_torch
from testbed.training.places import places
from testbed.training.script import Script
from testbed.training.synchronous import Synchronous
from testbed.workload.catalogue import path_of

HERE = "gradients are summed locally, timed by the run"
THROUGH = "the parameters follow from the sums that arrived"


@dataclass(frozen=True)
class Learnt:
    """What a job has learnt: its evaluations, with times on the back end's clock since its
    start."""

    script: Script
    points: tuple[Point, ...]
    notes: str


class Learning:
    """The jobs of ``deployment`` that learn.

    In emulation, and with ``backend: packet`` and ``carried_values: all``, the real gradients of
    jobs that sum in every iteration travel in the packets. All other jobs learn after the run, by
    its schedule. In emulation, each worker is a process that computes the gradients of all workers,
    so that it can check the sums. Raises TrainingError if a job cannot learn.
    """

    def __init__(self, deployment: Deployment) -> None:
        self._jobs = {
            job.number: _Job(job, deployment.experiment.emulation.seed + job.number)
            for job in deployment.jobs
            if job.job.training is not None
        }
        experiment = deployment.experiment
        self._emulated = experiment.backend == "emulate"
        self._online = self._emulated or (
            experiment.backend == "packet" and experiment.emulation.carried_values == "all"
        )
        self.deployment = replace(
            deployment,
            jobs=tuple(
                replace(job, learnt=self._jobs[job.number].travelling(self._emulated))
                if job.number in self._jobs and self._online and job.plan.consistency is None
                else job
                for job in deployment.jobs
            ),
        )
        """The deployment to run."""

    def finish(self, measured: Measurements) -> dict[int, Learnt]:
        """What each job that learns has learnt, by its number."""
        return {
            number: job.finish(measured.jobs[number], self._online and not self._emulated)
            for number, job in self._jobs.items()
        }


class _Job:
    def __init__(self, job: DeployedJob, seed: int) -> None:
        self._job, self._seed = job, seed
        self._script = load(job)
        self._device = device(job)
        self._computation = Computation(
            self._script, job.plan.workers, job.trace.batch, seed, self._device
        )
        check_trace(self._computation.tensors, job.trace, self._script.path)
        self._places = places(job)

    @cached_property
    def sums(self) -> Synchronous:
        return self._made()

    def travelling(self, elsewhere: bool) -> Synchronous:
        """What workers send. ``elsewhere``: whether they are processes of their own, which do not
        evaluate."""
        return self._made(evaluates=False) if elsewhere else self.sums

    def _made(self, evaluates: bool = True) -> Synchronous:
        workers, job = self._job.plan.workers, self._job.job
        return Synchronous(job, workers, self._places, self._computation, self._seed, evaluates)

    def finish(self, measured: JobMeasurements, online: bool) -> Learnt:
        start = min(own[0].start for own in measured.iterations)
        if self._job.plan.consistency is not None:
            servers = Asynchronous(
                self._job.job, self._job.plan.workers, self._places, self._computation
            )
            servers.learn(measured.updates, start)
            return Learnt(self._script, tuple(servers.points), self._noted(HERE))
        if not online:
            self.sums.learn()
        # If gradients travelled, the workers' digests must be those of local sums.
        if not measured.weights <= {"", self.sums.weights}:
            raise TrainingError(
                f"job {self._job.number}: the workers' weights, {listed(sorted(measured.weights))},"
                f" are not those of local sums, {self.sums.weights}"
            )
        points = _timed(self.sums.points, measured, start)
        return Learnt(self._script, points, self._noted(THROUGH if any(measured.weights) else HERE))

    def _noted(self, sums: str) -> str:
        where = "" if self._device == CPU else f"; gradients computed on {described(self._device)}"
        return sums + where


def device(job: DeployedJob) -> str:
    """The device of PyTorch's on which a job that learns computes."""
    assert job.job.training is not None
    return job.job.training.device or CPU


def load(job: DeployedJob) -> Script:
    """The script of a job. Raises TrainingError if PyTorch or the script cannot be used."""
    assert job.job.training is not None
    require_torch()
    named = job.job.training.script
    return script.load(Path(named) if named else path_of(job.job.workload).with_suffix(".py"))


def _timed(points: Sequence[Point], measured: JobMeasurements, start_s: float) -> tuple[Point, ...]:
    """The evaluations with times: one after an iteration is at the end of the last worker's."""
    ends = [0.0] + [
        max(own[index].end for own in measured.iterations) - start_s
        for index in range(len(measured.iterations[0]))
    ]
    return tuple(replace(point, at_s=ends[int(point.iteration)]) for point in points)


def prepare(deployments: Sequence[Deployment]) -> None:
    """Check, before the first cell runs, that all scripts can be used. Raises TrainingError if
    not."""
    seen = set()
    for deployment in deployments:
        for job in deployment.jobs:
            if (told := job.job.training) is None:
                continue
            if deployment.experiment.backend == "emulate" and job.plan.consistency is not None:
                raise TrainingError(
                    f"{job.system.name}: found a job that learns without a barrier with backend:"
                    " emulate, wanted a system that sums in every iteration; write backend:"
                    " simulate, or backend: packet"
                )
            key = (told.script, job.job.workload, job.plan.workers)
            if key not in seen:
                seen.add(key)
                _Job(job, deployment.experiment.emulation.seed)
