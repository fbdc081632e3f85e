"""Each job of an experiment becomes a plan with its timing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from testbed import model
from testbed.dataplane import wire
from testbed.endpoint.task import Unit, cut
from testbed.experiment.schema import Experiment, Job
from testbed.harness.errors import DeploymentError
from testbed.harness.memory import Window, window
from testbed.harness.paces import paces
from testbed.plan.checker import check
from testbed.plan.program import Plan
from testbed.systems import Assignment, System, registry
from testbed.topology.fabric import Fabric
from testbed.topology.placement import place
from testbed.workload import values
from testbed.workload.buckets import after_compute, fill
from testbed.workload.trace import Trace, TraceError, load
from testbed.workload.values import Sample


@dataclass(frozen=True)
class DeployedJob:
    """A job placed on the fabric. Units and times are scaled, but not dilated.

    Attributes:
        number: its place in the experiment.
        sample: recorded gradients that are summed; None for normally distributed ones.
        paces: for each worker and iteration, warm-up included, how many times as long as
            ``compute_s`` it computes.
        step_s: what each dependent transfer costs a host before it starts.
        start_s: when the job begins.
    """

    number: int
    job: Job
    system: System
    trace: Trace
    sample: Sample | None
    plan: Plan
    fabric: Fabric
    units: tuple[Unit, ...]
    compute_s: float
    paces: tuple[tuple[float, ...], ...]
    step_s: float
    start_s: float
    window: Window

    @property
    def gradient_bytes(self) -> int:
        """Bytes that one iteration synchronises, scaled, padding included."""
        return 4 * sum(unit.elements for unit in self.units)

    @cached_property
    def expected(self) -> tuple[model.Expected, ...]:
        """The closed form of each iteration.

        Everyone waits for whoever computes longest, except where no barrier binds: there the
        slowest worker of all is the last to end.
        """
        consistency = self.plan.consistency
        if consistency is None or consistency.is_barrier:
            decisive = tuple(map(max, zip(*self.paces, strict=True)))
        else:
            decisive = max(self.paces, key=sum)
        # To the percent, so that a thousand unsteady iterations are not a thousand to work out.
        forms = {pace: self._expected(pace) for pace in {round(pace, 2) for pace in decisive}}
        return tuple(forms[round(pace, 2)] for pace in decisive)

    def _expected(self, pace: float) -> model.Expected:
        pieces = [(unit.ready_s * pace, unit.elements * 4) for unit in self.units]
        return model.iteration(
            self.plan,
            self.fabric,
            pieces,
            self.compute_s * pace,
            self.step_s,
            self.system.steps(self.plan),
        )

    @property
    def gap_s(self) -> float:
        """What each worker begins later than the one before it."""
        return self.expected[0].gap_s

    @property
    def expected_jct_s(self) -> float:
        """The closed form of all measured iterations."""
        return sum(each.iteration_s for each in self.expected[self.job.warmup :])

    @property
    def expected_end_s(self) -> float:
        """When the job should be over, warm-up and late start included."""
        return self.start_s + sum(each.iteration_s for each in self.expected)


def deploy(experiment: Experiment, fabric: Fabric) -> list[DeployedJob]:
    """Place, plan, check and time every job. DeploymentError says what cannot be."""
    places = _places(experiment.jobs, fabric, experiment.emulation.seed)
    return [
        _deploy(number, job, assignment, fabric, experiment)
        for number, (job, assignment) in enumerate(zip(experiment.jobs, places, strict=True))
    ]


def _places(jobs: Sequence[Job], fabric: Fabric, seed: int) -> list[Assignment]:
    taken = {
        host
        for job in jobs
        for named in (job.workers, job.servers)
        if isinstance(named, tuple)
        for host in named
    }
    places = []
    for number, job in enumerate(jobs):
        _, most_servers = registry[job.system].servers
        try:
            workers = (
                job.workers
                if isinstance(job.workers, tuple)
                else place(fabric, job.placement, job.workers, taken, seed + number)
            )
            taken |= set(workers)
            if most_servers == 0:
                servers: tuple[str, ...] = ()
            elif isinstance(job.servers, tuple):
                servers = job.servers
            elif job.colocated:
                servers = workers[: job.servers]
            else:
                servers = place(fabric, job.placement, job.servers, taken, seed + number)
        except ValueError as error:
            raise DeploymentError(f"{job.system} on {job.workload}: {error}") from error
        taken |= set(servers)
        # Ranks go rack by rack whatever the order in the file, so that a ring stays in its rack.
        order = {host: index for index, host in enumerate(fabric.hosts)}
        places.append(Assignment(tuple(sorted(workers, key=order.__getitem__)), servers))
    return places


def _deploy(
    number: int, job: Job, assignment: Assignment, fabric: Fabric, experiment: Experiment
) -> DeployedJob:
    system, scale = registry[job.system], experiment.emulation.scale
    trace = load(job.workload)
    try:
        sample = values.load(job.workload) if job.gradients == "real" else None
    except TraceError as error:
        raise DeploymentError(f"gradients: real: {error}") from error
    try:
        options = system.settle(job.options)
        plan = system.plan(replace(assignment, options=options, trace=trace), fabric)
    except ValueError as error:
        raise DeploymentError(str(error)) from error
    if plan.workers <= wire.MAX_WORKERS:
        check(plan)  # beyond, only the simulator goes, and the proof grows with the square
    buckets = fill(trace, job.bucket, job.first_bucket, scale, plan.deferred)
    compute_s = trace.compute_s * scale
    if not job.overlap:
        buckets = after_compute(buckets, compute_s)
    return DeployedJob(
        number=number,
        job=job,
        system=system,
        trace=trace,
        sample=sample,
        plan=plan,
        fabric=fabric,
        units=cut(buckets, plan, scale),
        compute_s=compute_s,
        paces=paces(
            job.compute,
            plan.workers,
            job.warmup + job.iterations,
            experiment.emulation.seed + number,
        ),
        step_s=fabric.step_latency * scale,
        start_s=job.start * scale,
        window=window(plan, fabric, options),
    )
