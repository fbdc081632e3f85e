"""What may make a job slower, and the same deployment without it.

The plan, and thus every packet that the job has to send, stays the same. Only what happens to the
packets changes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from testbed import wire
from testbed.backends.measurements import Measurements
from testbed.deployment.deploy import DeployedJob, Deployment, with_routes
from testbed.deployment.windows import window
from testbed.experiment.schema import Emulation
from testbed.protocols.events import Event
from testbed.topology.fabric import Fabric, Link

_ENDLESS = 1 << 40


@dataclass(frozen=True)
class Cause:
    """A cause of lost time.

    Attributes:
        name: its name in tables.
        instead: what the run without it has instead.
        present: a function that says whether it may matter to a job, given by its number, in a run
            with these measurements.
        without: a function that returns the deployment without it, for that job.
    """

    name: str
    instead: str
    present: Callable[[Deployment, int, Measurements], bool]
    without: Callable[[Deployment, int], Deployment]


def removed(deployment: Deployment, number: int, causes: Collection[Cause]) -> Deployment:
    """The deployment without any of ``causes`` of job ``number``."""
    for cause in CAUSES:
        if cause in causes:
            deployment = cause.without(deployment, number)
    return deployment


def _job(deployment: Deployment, number: int) -> DeployedJob:
    return deployment.jobs[number if len(deployment.jobs) > 1 else 0]


def _with_job(deployment: Deployment, number: int, **changes: Any) -> Deployment:
    old = _job(deployment, number)
    jobs = tuple(replace(job, **changes) if job is old else job for job in deployment.jobs)
    return replace(deployment, jobs=jobs)


def on(deployment: Deployment, **changes: Any) -> Deployment:
    """The same plans on a fabric with these ``changes``."""
    fabric = replace(deployment.fabric, **changes)
    jobs = tuple(replace(job, fabric=fabric) for job in deployment.jobs)
    return replace(deployment, fabric=fabric, jobs=jobs)


def run_with(deployment: Deployment, **changes: Any) -> Deployment:
    """The deployment with these ``changes`` of how the experiment is run."""
    emulation = deployment.experiment.emulation.model_copy(update=changes)
    experiment = deployment.experiment.model_copy(update={"emulation": emulation})
    return replace(deployment, experiment=experiment)


def _alone(deployment: Deployment, number: int) -> Deployment:
    # Ports and counters use job numbers from 0.
    return replace(deployment, jobs=(replace(_job(deployment, number), number=0),))


def _in_step(deployment: Deployment, number: int) -> Deployment:
    paces = _job(deployment, number).paces
    middle = tuple(median(each) for each in zip(*paces, strict=True))
    return _with_job(deployment, number, paces=(middle,) * len(paces))


def _is_uneven(deployment: Deployment, number: int, _: Measurements) -> bool:
    return len(set(_job(deployment, number).paces)) > 1


def _without_steps(deployment: Deployment, number: int) -> Deployment:
    changed = on(deployment, step_latency=0.0)
    return replace(changed, jobs=tuple(replace(job, step_s=0.0) for job in changed.jobs))


def _tier(fabric: Fabric, link: Link) -> frozenset[str]:
    return frozenset(fabric.nodes[end].kind.value for end in (link.a, link.b))


def _best_rates(fabric: Fabric) -> Mapping[frozenset[str], float]:
    best: dict[frozenset[str], float] = {}
    for link in fabric.links:
        tier = _tier(fabric, link)
        best[tier] = max(best.get(tier, 0.0), link.rate)
    return best


def _alike(deployment: Deployment, _: int) -> Deployment:
    fabric = deployment.fabric
    best = _best_rates(fabric)
    return on(
        deployment,
        links=tuple(replace(link, rate=best[_tier(fabric, link)]) for link in fabric.links),
    )


def _has_slow_links(deployment: Deployment, _: int, __: Measurements) -> bool:
    best = _best_rates(deployment.fabric)
    return any(link.rate < best[_tier(deployment.fabric, link)] for link in deployment.fabric.links)


def _has_choices(deployment: Deployment, number: int, _: Measurements) -> bool:
    """Whether flows without a route of their own can take several ways."""
    own = _job(deployment, number).plan.routes
    return set(_job(with_routes(deployment), number).plan.routes) > set(own)


def _without_limits(deployment: Deployment, _: int) -> Deployment:
    return on(
        deployment,
        links=tuple(replace(link, queue=_ENDLESS) for link in deployment.fabric.links),
    )


def _fair(deployment: Deployment, number: int) -> Deployment:
    job = _job(deployment, number)
    options = {**job.system.settle(job.job.options)}
    if not job.window.message:  # those of messages are the system's own
        options.pop("window", None)
    fair = window(job.plan, deployment.fabric, options)
    return _with_job(deployment, number, window=fair)


def _has_smaller_window(deployment: Deployment, number: int, _: Measurements) -> bool:
    job = _job(deployment, number)
    return _job(_fair(deployment, number), number).window.fragments > job.window.fragments


def _has_collisions(deployment: Deployment, _: int, measured: Measurements) -> bool:
    return (
        any(events[Event.COLLISION] for events in measured.events.values())
        and deployment.fabric.slots < wire.SLOTS
    )


CAUSES = (
    Cause(
        "faults",
        "no link, switch or host fails",
        lambda deployment, *_: bool(deployment.experiment.emulation.faults),
        lambda deployment, _: run_with(deployment, faults=()),
    ),
    Cause(
        "loss",
        "no link loses packets, so nothing has to be recovered",
        lambda deployment, *_: Emulation(loss=deployment.experiment.emulation.loss).is_impaired,
        lambda deployment, _: run_with(deployment, loss=0.0),
    ),
    Cause(
        "duplicates",
        "no link delivers packets twice",
        lambda deployment, *_: (
            Emulation(duplication=deployment.experiment.emulation.duplication).is_impaired
        ),
        lambda deployment, _: run_with(deployment, duplication=0.0),
    ),
    Cause(
        "other jobs",
        "the job runs alone",
        lambda deployment, *_: len(deployment.jobs) > 1,
        _alone,
    ),
    Cause(
        "stragglers",
        "in each iteration all workers compute as long as the median one",
        _is_uneven,
        _in_step,
    ),
    Cause(
        "switch capacity",
        "switches sum as fast as their links deliver",
        lambda deployment, *_: bool(deployment.fabric.capacity),
        lambda deployment, _: on(deployment, capacity={}),
    ),
    Cause(
        "hosts' own cost",
        "packets and messages take no time of processors",
        lambda deployment, *_: bool(
            deployment.fabric.packet_cost
            or deployment.fabric.message_cost
            or deployment.fabric.packet_costs
        ),
        lambda deployment, _: on(deployment, packet_cost=0.0, message_cost=0.0, packet_costs={}),
    ),
    Cause(
        "steps of the chain",
        "a dependent step costs a host no latency",
        lambda deployment, *_: bool(deployment.fabric.step_latency),
        _without_steps,
    ),
    Cause(
        "delays",
        "links and pipelines take no time except for transmission",
        lambda deployment, *_: bool(
            deployment.fabric.link_delay or deployment.fabric.pipeline_latency
        ),
        lambda deployment, _: on(deployment, link_delay=0.0, pipeline_latency=0.0),
    ),
    Cause(
        "slow links",
        "each link is as fast as the fastest of its tier",
        _has_slow_links,
        _alike,
    ),
    Cause(
        "ECMP's imbalance",
        "each flow has a route, chosen so that no link is needlessly busy",
        _has_choices,
        lambda deployment, _: with_routes(deployment),
    ),
    Cause(
        "full queues",
        "no queue overflows",
        lambda _, __, measured: any(port.dropped for port in measured.ports.values()),
        _without_limits,
    ),
    Cause(
        "few slots",
        "switches have all slots that a packet can name, so fewer packets collide",
        _has_collisions,
        lambda deployment, _: on(deployment, slots=wire.SLOTS),
    ),
    Cause(
        "small windows",
        "hosts have the window that the queues allow",
        _has_smaller_window,
        _fair,
    ),
)
"""The causes in the order in which they are removed: first what comes from outside the job, then
what hosts and the fabric cost, and finally what the job's own traffic does to itself."""
