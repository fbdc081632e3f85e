"""Turns each job of an experiment into a plan with its timing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from testbed import extensions
from testbed.deployment.compute import paces
from testbed.deployment.errors import DeploymentError
from testbed.deployment.places import places
from testbed.deployment.routing import spread_out
from testbed.deployment.windows import sent, window
from testbed.experiment.findings import shown
from testbed.experiment.schema import Experiment, Job
from testbed.plan.checker import PlanError, check
from testbed.plan.cost import ClosedForm, Expected, Timing, seconds_per_byte
from testbed.plan.program import Pipelining, Plan
from testbed.plan.units import Unit, cut
from testbed.protocols import protocol_of
from testbed.protocols.allocation import Window
from testbed.systems import Assignment, System, registry
from testbed.topology import paths
from testbed.topology.fabric import Fabric
from testbed.workload import replay, sharded
from testbed.workload.buckets import Bucket, after_compute, fill
from testbed.workload.catalogue import load
from testbed.workload.trace import Trace, TraceError

if TYPE_CHECKING:
    from testbed.workload.gradients import Gradients
    from testbed.workload.values import Sample

PRIORITY_CREDIT = 3
"""The pieces that may be in flight in layer-priority order if the system sets no credit. Without a
limit, all ready pieces would share the links, and none would come first. With fewer, links would
idle between rounds of several stages."""


@dataclass(frozen=True)
class DeployedJob:
    """A job placed on the fabric. Units and times are scaled, but not dilated.

    Attributes:
        number: its place in the experiment.
        buckets: the tensors that are synchronised together.
        sample: recorded gradients that are summed; None for normally distributed ones.
        paces: the factor of ``compute_s`` for each worker and iteration, warm-up included.
        step_s: the time that a host needs for each dependent transfer before it starts.
        start_s: when the job begins.
        forward: the parts of the forward pass, each with the bucket that it waits for; empty if the
            pass waits for all sums.
        parts: the lengths of the parts of the computation for which parameters are gathered; empty
            if they are not sharded.
        learnt: the gradients of a job that learns while it runs; None for drawn ones.
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
    forward: tuple[replay.Need, ...]
    buckets: tuple[Bucket, ...] = ()
    parts: tuple[float, ...] = ()
    learnt: Gradients | None = None

    @property
    def gradient_bytes(self) -> int:
        """Bytes of the gradients that one iteration synchronises, scaled."""
        return 4 * sum(unit.elements for unit in self.units if not unit.gathers)

    @property
    def quantisation(self) -> str:
        """How real gradients become integers, as text; empty for others."""
        if self.sample is None and self.job.training is None:
            return ""
        return {
            "fixed_point": f"2^{self.job.fixed_point}" + " a deviation" * (self.sample is not None),
            "factor": f"factor {self.job.factor:g}",
            "block_exponent": "block exponent",
        }[self.job.quantisation]

    @cached_property
    def expected(self) -> tuple[Expected, ...]:
        """The closed form of each iteration."""
        return self._iterations(0.0)

    def routed_jct_s(self, busiest_s: float) -> float:
        """The closed form of all measured iterations if the busiest link is busy for ``busiest_s``
        in all iterations, warm-up included.
        """
        count = self.job.warmup + self.job.iterations
        found = self._iterations(busiest_s / (count * self.gradient_bytes))
        return sum(each.iteration_s for each in found[self.job.warmup :])

    def _iterations(self, least_pace: float) -> tuple[Expected, ...]:
        """With a barrier, each iteration waits for its slowest worker. Without one, the worker that
        is slowest overall ends last. A byte takes at least ``least_pace`` (s).
        """
        consistency = self.plan.consistency
        if consistency is None or consistency.is_barrier:
            decisive = tuple(map(max, zip(*self.paces, strict=True)))
        else:
            decisive = max(self.paces, key=sum)
        if self.forward:
            return self._form.replayed(self._timing(1.0, least_pace), decisive)
        # Paces are rounded to percents, so that jitter does not require a closed form for every
        # iteration.
        forms = {
            pace: self._form.iteration(self._timing(pace, least_pace))
            for pace in {round(pace, 2) for pace in decisive}
        }
        return tuple(forms[round(pace, 2)] for pace in decisive)

    @cached_property
    def _form(self) -> ClosedForm:
        return ClosedForm(self.plan, self.fabric, self.step_s)

    def _timing(self, pace: float, least_pace: float) -> Timing:
        return Timing(
            pieces=[(unit.ready_s * pace, unit.elements * 4) for unit in self.units],
            compute_s=self.compute_s * pace,
            least_pace=least_pace,
            buckets=[unit.bucket for unit in self.units],
            forward=self.forward,
            parts=[part * pace for part in self.parts],
            waits=[(unit.after, unit.needed) for unit in self.units if self.parts],
        )

    @property
    def gap_s(self) -> float:
        """How much later each worker begins than the one before it."""
        return self.expected[0].gap_s

    @property
    def expected_jct_s(self) -> float:
        """The closed form of all measured iterations."""
        return sum(each.iteration_s for each in self.expected[self.job.warmup :])

    @property
    def expected_end_s(self) -> float:
        """When the job should end, warm-up and late start included."""
        return self.start_s + sum(each.iteration_s for each in self.expected)


@dataclass(frozen=True)
class Deployment:
    """Everything that a run needs, as plain data: made once, for any back end.

    Attributes:
        experiment: resolved, without a sweep.
        fabric: its nodes and links, and which switches aggregate.
        jobs: placed, planned, checked and timed, in the experiment's order.
    """

    experiment: Experiment
    fabric: Fabric
    jobs: tuple[DeployedJob, ...]


def deploy(experiment: Experiment, fabric: Fabric) -> Deployment:
    """Place, plan, check and time every job. Raises DeploymentError, which says what is
    impossible."""
    jobs = []
    found = places(experiment.jobs, fabric, experiment.emulation.seed)
    for number, (job, assignment) in enumerate(zip(experiment.jobs, found, strict=True)):
        try:
            jobs.append(_deploy(number, job, assignment, fabric, experiment))
        except DeploymentError as error:
            raise DeploymentError(str(error), error.place or ("jobs", number)) from error
    made = Deployment(experiment, fabric, tuple(jobs))
    return with_routes(made) if experiment.fabric.routing == "spread" else made


def with_routes(deployment: Deployment) -> Deployment:
    """The deployment with a path for every flow, chosen for all jobs together."""
    jobs = deployment.jobs
    chosen = spread_out(deployment.fabric, [(job.plan, job.gradient_bytes) for job in jobs])
    routed = (
        replace(job, plan=replace(job.plan, routes=routes))
        for job, routes in zip(jobs, chosen, strict=True)
    )
    return replace(deployment, jobs=tuple(routed))


def _deploy(
    number: int, job: Job, assignment: Assignment, fabric: Fabric, experiment: Experiment
) -> DeployedJob:
    system, scale = registry[job.system], experiment.emulation.scale
    trace = load(job.workload)
    try:
        options = system.settle(job.options)
        seed = experiment.emulation.seed
        sample = _sample(job.workload) if job.gradients == "real" else None
        block = 1 if system.sparse == "values" else fabric.values
        union = _union(job, len(assignment.workers), block, sample)
        assignment = replace(assignment, options=options, trace=trace, seed=seed, union=union)
        plan = system.plan(assignment, fabric)
        paths.check(fabric, plan.routes)
        check(plan)
    except (ValueError, PlanError) as error:
        raise DeploymentError(str(error)) from error
    except Exception as error:
        if where := extensions.place_of(error):
            raise DeploymentError(f"{where}: {type(error).__name__}: {error}") from error
        raise
    if job.forward == "by_tensor" and plan.consistency is not None:
        raise DeploymentError(
            f"forward: found by_tensor, wanted whole for {system.name}, whose workers continue only"
            " with the parameters of all servers"
        )
    buckets = fill(trace, job.bucket, job.first_bucket, scale, plan.deferred)
    compute_s = trace.compute_s * scale
    if plan.sharding is not None:
        _check_sharded(number, job)
    if not job.overlap:
        buckets = after_compute(buckets, compute_s)
    if job.order == "priority":
        partition, credit = plan.pipelining.partition, plan.pipelining.credit
        plan = replace(
            plan, pipelining=Pipelining(partition, credit or PRIORITY_CREDIT, "priority")
        )
    issued: Sequence[Bucket] = buckets
    parts: tuple[float, ...] = ()
    if plan.sharding is not None:
        issued, parts = sharded.schedule(trace.scaled(scale), buckets, plan.sharding.reshard)
    units = cut(issued, plan, scale, fabric.values)
    space = window(plan, fabric, options)
    if job.density != 1:
        plan = replace(plan, sent=sent(plan, units, space, fabric, union))
    if plan.pipelining.order == "priority":
        units = by_priority(units, buckets, seconds_per_byte(plan, fabric))
    if plan.trees:
        priorities = protocol_of(plan.trees[0]).priorities(options, units, scale)
        units = tuple(map(_with_priority, units, priorities))
    return DeployedJob(
        number=number,
        job=job,
        system=system,
        trace=trace,
        sample=sample,
        plan=plan,
        fabric=fabric,
        units=units,
        compute_s=compute_s,
        paces=paces(
            job.compute,
            plan.workers,
            job.warmup + job.iterations,
            experiment.emulation.seed + number,
        ),
        step_s=fabric.step_latency * scale,
        start_s=(job.start + fabric.reconfiguration) * scale,
        window=space,
        forward=replay.needs(trace.scaled(scale), buckets) if job.forward == "by_tensor" else (),
        buckets=tuple(buckets),
        parts=parts,
    )


def _check_sharded(number: int, job: Job) -> None:
    """Raise DeploymentError if the job sets an option that gathered parameters leave no choice
    in."""
    left = {
        "forward": ("whole", "passes wait for the parameters that they gather"),
        "order": ("backward", "the computation sets the order"),
        "overlap": (True, "only what computes next is gathered ahead"),
    }
    for key, (wanted, why) in left.items():
        if (found := getattr(job, key)) != wanted:
            raise DeploymentError(
                f"{key}: found {shown(found)}, wanted {shown(wanted)} or nothing where parameters"
                f" are sharded: {why}",
                ("jobs", number, key),
            )
    if job.training is not None:
        raise DeploymentError(
            "training: found a script, wanted none where parameters are sharded: no worker has all"
            " sums when an iteration ends; leave it out, or keep the parameters in all workers",
            ("jobs", number, "training"),
        )


def _union(job: Job, workers: int, block: int, sample: Sample | None) -> float:
    """The share of blocks that are not zero at some worker: 1 - (1 - D)^N for independent blocks
    that each have a probability of D at a worker."""
    if not isinstance(job.density, str):
        return 1 - (1 - job.density) ** workers
    from testbed.workload.sparse import union_of

    assert sample is not None, "a recorded density is checked to have real gradients"
    return union_of(sample, workers, block)


def _with_priority(unit: Unit, priority: int) -> Unit:
    return replace(unit, priority=priority) if priority else unit


def _sample(workload: str) -> Sample:
    from testbed.workload import values  # numpy is slow to import, and few jobs need it

    try:
        return values.load(workload)
    except TraceError as error:
        raise DeploymentError(f"gradients: real: {error}") from error


def by_priority(units: Sequence[Unit], buckets: Sequence[Bucket], pace: float) -> tuple[Unit, ...]:
    """``units`` in layer-priority order. Each time a unit has been sent, at ``pace`` seconds per
    byte, the next is the ready one that the next forward pass needs first (P3, Jayarajan et al.,
    MLSys 2019; ByteScheduler, Peng et al., SOSP 2019).

    The order is fixed before the job begins, from the workload's times and the closed form's pace.
    In a tree, as in any all-reduce, all ranks must send the same units in the same order;
    ByteScheduler lets one worker decide for all.
    """
    place = {
        bucket.index: at for bucket, at in zip(buckets, replay.priorities(buckets), strict=True)
    }
    order = replay.sequence(
        [unit.ready_s for unit in units],
        [4 * unit.elements * pace for unit in units],
        [place[unit.bucket] for unit in units],
    )
    return tuple(units[index] for index in order)
