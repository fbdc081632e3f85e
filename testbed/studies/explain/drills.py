"""Faults hidden in ordinary experiments, and healthy runs, for `diagnosis`.

A drill runs an intended experiment with something wrong that its file does not show. `diagnosis`
gets the record of that run, whose seed no normal run has, and the intended deployment. Compute
times vary by 5 %, and ECMP's hashes vary, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

from testbed.deployment.deploy import Deployment
from testbed.experiment.schema import Experiment
from testbed.placement.deployments import Deployments
from testbed.plan.cost import flows
from testbed.studies.explain import diagnosis
from testbed.studies.explain.causes import on, run_with
from testbed.studies.explain.diagnosis import Sign, diagnose
from testbed.studies.explain.record import Record, observe
from testbed.topology.paths import path

WANTED = 18
"""How many of 20 faults must be named."""

NORMAL_SEEDS = (101, 102, 103)
HIDDEN_SEED = 7

_FABRIC: dict[str, Any] = {
    "kind": "leaf-spine",
    "spines": 2,
    "leaves": 4,
    "hosts_per_leaf": 3,
    "host_rate": "10Gbit",
    "queue": "256KB",
    "link_delay": "1us",
    "step_latency": "5us",
}
_JOB: dict[str, Any] = {
    "workload": "resnet50",
    "workers": 8,
    "iterations": 2,
    "warmup": 1,
    "compute": {"jitter": 0.05},
}


@dataclass(frozen=True)
class Intended:
    """What an experiment file would say, as differences from the usual experiment."""

    name: str
    jobs: Sequence[Mapping[str, Any]]
    fabric: Mapping[str, Any] = field(default_factory=dict)
    emulation: Mapping[str, Any] = field(default_factory=dict)

    def deploy(
        self, seed: int, others: Sequence[Mapping[str, Any]] = (), **fabric: Any
    ) -> Deployment:
        """The deployment with this seed, and possibly with ``others`` as further jobs or another
        ``fabric``."""
        return Deployments().of(
            Experiment.model_validate(
                {
                    "schema_version": 1,
                    "name": "drill",
                    "backend": "packet",
                    "fabric": {**_FABRIC, **self.fabric, **fabric},
                    "jobs": [{**_JOB, **job} for job in (*self.jobs, *others)],
                    "emulation": {"scale": "1/256", **self.emulation, "seed": seed},
                }
            )
        )


INTENDED = {
    name: Intended(name, **what)
    for name, what in yaml.safe_load(Path(__file__).with_name("intended.yaml").read_text()).items()
}
"""The healthy experiments, by the names that drills use."""


@dataclass(frozen=True)
class Fault:
    """Something wrong in a run of an intended experiment.

    Attributes:
        name: what is wrong.
        intended: the name of the experiment.
        cause, where: what the first sign must say; one of the places in ``where`` suffices.
        hide: makes the deployment that is run, from the intended experiment and a seed.
    """

    name: str
    intended: str
    cause: str
    where: tuple[str, ...]
    hide: Callable[[Intended, int], Deployment]


def _changed(change: Callable[[Deployment], Deployment]) -> Callable[[Intended, int], Deployment]:
    """A fault that changes the intended deployment. The plan stays that of the experiment without
    the fault."""
    return lambda intended, seed: change(intended.deploy(seed))


def _link(a: str, b: str, **changes: Any) -> Callable[[Intended, int], Deployment]:
    def change(deployment: Deployment) -> Deployment:
        links = tuple(
            replace(link, **changes) if {link.a, link.b} == {a, b} else link
            for link in deployment.fabric.links
        )
        return on(deployment, links=links)

    return _changed(change)


def _fabric(**changes: Any) -> Callable[[Intended, int], Deployment]:
    return _changed(lambda deployment: on(deployment, **changes))


def _emulation(**changes: Any) -> Callable[[Intended, int], Deployment]:
    return _changed(lambda deployment: run_with(deployment, **changes))


def _paced(factor: Callable[[int, int], float]) -> Callable[[Intended, int], Deployment]:
    """Multiply compute times by a factor that depends on the rank and the iteration."""

    def change(deployment: Deployment) -> Deployment:
        (job,) = deployment.jobs
        paces = tuple(
            tuple(pace * factor(rank, number) for number, pace in enumerate(own))
            for rank, own in enumerate(job.paces)
        )
        return replace(deployment, jobs=(replace(job, paces=paces),))

    return _changed(change)


def _window(fragments: int) -> Callable[[Intended, int], Deployment]:
    def change(deployment: Deployment) -> Deployment:
        (job,) = deployment.jobs
        window = replace(job.window, fragments=fragments)
        return replace(deployment, jobs=(replace(job, window=window),))

    return _changed(change)


def _steps(seconds: float) -> Callable[[Intended, int], Deployment]:
    def change(deployment: Deployment) -> Deployment:
        (job,) = deployment.jobs
        scale = deployment.experiment.emulation.scale
        return replace(deployment, jobs=(replace(job, step_s=seconds * scale),))

    return _changed(change)


def _polarised(deployment: Deployment) -> Deployment:
    """Make all switches choose the first next hop for each flow, as one hash for all would."""
    (job,) = deployment.jobs
    routes = {
        (source, to): found
        for source, to in flows(job.plan)
        if len(found := path(deployment.fabric, source, to)) > 3
        and any(
            len(deployment.fabric.next_hops(here, there)) > 1
            for here, there in ((node, to) for node, _ in pairwise(found))
        )
    }
    return replace(deployment, jobs=(replace(job, plan=replace(job.plan, routes=routes)),))


def _silent(*summing: str) -> Callable[[Intended, int], Deployment]:
    """Only these switches sum."""
    return lambda intended, seed: intended.deploy(seed, ina=list(summing))


def _beside(*hosts: str) -> Callable[[Intended, int], Deployment]:
    """Run another job on these hosts, which is not in the intended experiment."""
    return lambda intended, seed: intended.deploy(
        seed, [{**intended.jobs[0], "workers": list(hosts), "iterations": 4}]
    )


FAULTS = (
    Fault("a host's link at half rate", "a ring", diagnosis.RATE, ("h2-t0", "t0-h2"),
          _link("h2", "t0", rate=5e9)),
    Fault("a host's link at a quarter", "a pool of slots", diagnosis.RATE, ("h5-t1", "t1-h5"),
          _link("h5", "t1", rate=2.5e9)),
    Fault("an uplink at half rate", "all machines serve", diagnosis.RATE, ("t1-s0", "s0-t1"),
          _link("t1", "s0", rate=5e9)),
    Fault("0.5 % loss on a host's link", "a ring", diagnosis.LOSS, ("h1-t0", "t0-h1"),
          _emulation(loss={"h1-t0": 0.005})),
    Fault("0.5 % loss on an uplink", "all machines serve", diagnosis.LOSS, ("t2-s1", "s1-t2"),
          _emulation(loss={"t2-s1": 0.005})),
    Fault("0.5 % loss under INA", "a pool of slots", diagnosis.LOSS, ("h4-t1", "t1-h4"),
          _emulation(loss={"h4-t1": 0.005})),
    Fault("a ToR does not sum", "slots by hash", diagnosis.SILENT, ("t0",),
          _silent("t1", "t2", "t3")),
    Fault("a ToR does not sum", "sums in transit", diagnosis.SILENT, ("t1",),
          _silent("t0", "t2", "t3")),
    Fault("half the slots", "two jobs share slots", diagnosis.SLOTS, ("t0", "t1", "t2", "t3"),
          _fabric(slots=64)),
    Fault("a straggler", "a ring", diagnosis.STRAGGLER, ("h3",),
          _paced(lambda rank, _: 2.0 if rank == 3 else 1.0)),
    Fault("a straggler, now and then", "a pool of slots", diagnosis.STRAGGLER, ("h6",),
          _paced(lambda rank, number: 1.5 if rank == 6 and number == 2 else 1.0)),
    Fault("hashes polarise", "all machines serve", diagnosis.HASH, ("s0",), _changed(_polarised)),
    Fault("a slow server", "one server", diagnosis.HOST, ("h8",),
          _fabric(packet_costs={"h8": 3e-6})),
    Fault("a slow host", "a ring", diagnosis.HOST, ("h2",), _fabric(packet_costs={"h2": 3e-6})),
    Fault("duplicates on an uplink", "all machines serve", diagnosis.DUPLICATES,
          ("t0-s1", "s1-t0"), _emulation(duplication={"t0-s1": 0.01})),
    Fault("a small window", "a pool of slots", diagnosis.WINDOW,
          tuple(f"h{host}" for host in range(8)),
          _window(4)),
    Fault("a short queue", "one server", diagnosis.QUEUE, ("t2-h8",),
          _link("t2", "h8", queue=32_000)),
    Fault("a busy neighbour", "a ring", diagnosis.NEIGHBOUR, ("h10", "h8", "h9"),
          _beside("h8", "h9", "h10")),
    Fault("a switch sums slowly", "a pool of slots", diagnosis.SWITCH, ("t0",),
          _fabric(capacity={"t0": 5e9})),
    Fault("slow steps of hosts", "a ring", diagnosis.LATENCY, ("hosts",), _steps(2e-3)),
)  # fmt: skip

HEALTHY = tuple((name, seed) for name in INTENDED for seed in (11, 12))


@cache
def normal(name: str) -> tuple[Record, ...]:
    """The records of runs as intended, whose seeds differ."""
    return tuple(observe(INTENDED[name].deploy(seed)) for seed in NORMAL_SEEDS)


def signs(name: str, record: Record) -> list[Sign]:
    """The diagnosis of a record, given only what was intended."""
    intended = INTENDED[name].deploy(NORMAL_SEEDS[0])
    return diagnose(record, normal(name), intended)


def hidden(fault: Fault) -> list[Sign]:
    """The diagnosis of a run with a hidden fault."""
    return signs(fault.intended, observe(fault.hide(INTENDED[fault.intended], HIDDEN_SEED)))


def healthy(name: str, seed: int) -> list[Sign]:
    """The diagnosis of a run as intended, which should have no signs."""
    return signs(name, observe(INTENDED[name].deploy(seed)))


def is_named(fault: Fault, found: Sequence[Sign]) -> bool:
    """Whether the first sign names the fault and its place."""
    return bool(found) and found[0].cause == fault.cause and found[0].where in fault.where


@dataclass
class Score:
    """How many drills have gone well so far."""

    named: int = 0
    silent: int = 0

    @property
    def is_met(self) -> bool:
        """Whether enough faults were named, and no sign was found in a healthy run."""
        return self.named >= WANTED and self.silent == len(HEALTHY)


def table(score: Score) -> Iterator[str]:
    """A line for each drill, and finally the ``score``."""
    for fault in FAULTS:
        found = hidden(fault)
        score.named += is_named(fault, found)
        verdict = "named " if is_named(fault, found) else "MISSED"
        yield f"{verdict}  {fault.name} ({fault.intended}): {_first(found)}"
    for name, seed in HEALTHY:
        found = healthy(name, seed)
        score.silent += not found
        yield f"{'FALSE ' if found else 'silent'}  healthy ({name}, seed {seed}): {_first(found)}"
    yield (
        f"{score.named} of {len(FAULTS)} faults named (wanted {WANTED}), silent on"
        f" {score.silent} of {len(HEALTHY)} healthy runs"
    )


def _first(found: Sequence[Sign]) -> str:
    return found[0].said if found else "nothing"
