"""A case from a seed: an experiment with faults. The same seed gives the same case.

Sixteen consecutive seeds share a world (fabric, jobs, systems, options and gradients) and differ in
their faults, because it takes longer to make a world than to run a case.
"""

from __future__ import annotations

import random
import typing
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from testbed import systems
from testbed.backends.packet.backend import carried
from testbed.campaign.planning import check_compiles, check_slots, own_control, own_program
from testbed.deployment.deploy import Deployment, deploy
from testbed.deployment.errors import DeploymentError
from testbed.deployment.tasks import gradients
from testbed.experiment.schema import Experiment, Fault
from testbed.placement.fabric import build_fabric
from testbed.protocols import on_trees
from testbed.studies.declared import protocols_of
from testbed.studies.torture.strangers import payload
from testbed.systems import home, registry

PER_WORLD = 16
_TRIES = 50
_LEAST_HOSTS = 3  # two workers and a server
_LEAST_SIZE = 10_000
"""An option whose example is at least this is a number of bytes, not a count."""
_SIZES = [1000, 4096, 10_000, 65_536]
_DEAD = 0.08
"""The share of cases in which a host dies or a link stays down. These may end with an error."""


class NoWorld(Exception):
    """No draw resulted in an experiment that can be deployed."""


def case(system: str, seed: int) -> dict[str, Any]:
    """The experiment of ``seed``, as in a file; its first job runs ``system``."""
    data, deployment = world(system, seed // PER_WORLD)
    faults = _schedule(system, seed, deployment)
    return {**data, "emulation": {**data["emulation"], "faults": faults}}


def deployed_seed(system: str, seed: int) -> Deployment:
    """The deployment of the case of ``seed``: that of its world, with the case's own faults."""
    _, deployment = world(system, seed // PER_WORLD)
    faults = tuple(map(Fault.model_validate, _schedule(system, seed, deployment)))
    experiment = deployment.experiment
    emulation = experiment.emulation.model_copy(update={"faults": faults})
    return replace(deployment, experiment=experiment.model_copy(update={"emulation": emulation}))


def check_own_protocols(chosen: Iterable[str]) -> None:
    """Raise DeploymentError if a user's own protocol, which one of the ``chosen`` systems uses,
    does not compile."""
    used = {each for name in chosen for each in protocols_of(registry[name])}
    for name, protocol in on_trees().items():
        if name in used and (program := own_control(protocol)):
            check_compiles(str(program))


@cache
def _neighbours() -> list[str]:
    """The systems of jobs beside the first: the testbed's own, so that a seed is the same case
    whatever extensions there are."""
    ours = Path(str(systems.__file__)).parent
    return [name for name in registry if (file := home(name)) and file.parent == ours]


@lru_cache(maxsize=4)
def world(system: str, number: int) -> tuple[dict[str, Any], Deployment]:
    """An experiment without faults, and its deployment, with the gradients drawn. Raises NoWorld if
    none was found."""
    draw, why = random.Random(f"{system}/world {number}"), ""
    for _ in range(_TRIES):
        data = _world(draw, system)
        experiment = Experiment.model_validate(data)
        try:
            deployment = deploy(experiment, build_fabric(experiment))
            if program := own_program(deployment):
                data["emulation"]["p4_program"] = str(program)
                deployment = replace(deployment, experiment=Experiment.model_validate(data))
            check_slots(deployment)
            return data, _with_gradients(deployment)
        except DeploymentError as error:
            why = str(error)
    raise NoWorld(f"none of {_TRIES} fabrics and jobs can be deployed; the last: {why}")


def _with_gradients(deployment: Deployment) -> Deployment:
    """The deployment with its gradients, which each run would otherwise draw again."""
    seed, values = deployment.experiment.emulation.seed, carried(deployment)
    jobs = []
    for job in deployment.jobs:
        drawn = gradients(job, seed + job.number, values)
        drawn.draw()
        jobs.append(replace(job, learnt=drawn))
    return replace(deployment, jobs=tuple(jobs))


def _world(draw: random.Random, system: str) -> dict[str, Any]:
    racks = [0]
    while sum(racks) < _LEAST_HOSTS:
        racks = [draw.randint(1, 4) for _ in range(draw.randint(1, 3))]
    hosts = [f"h{number}" for number in range(sum(racks))]
    spines = draw.randint(1, 2)
    switches = [f"t{number}" for number in range(len(racks))]
    switches += [f"s{number}" for number in range(spines)]
    some = draw.sample(switches, draw.randint(1, len(switches)))
    fabric: dict[str, Any] = {
        "kind": "leaf-spine",
        "spines": spines,
        "leaves": len(racks),
        "hosts_per_leaf": racks,
        "host_rate": draw.choice(["1Gbit", "10Gbit", "100Gbit"]),
        "queue": draw.choice(["8KB", "32KB", "256KB"]),
        "ina": draw.choice(["all", "all", "none", sorted(some)]),
        "slots": draw.choice([2, 4, 8, 16, 64, 4096]),
        "link_delay": draw.choice(["0s", "1us", "20us"]),
    }
    if draw.random() < 0.2:
        fabric["capacity"] = draw.choice(["500Mbit", "8Gbit"])
    jobs = []
    free = draw.sample(hosts, len(hosts))
    for name in (system, *draw.choices(_neighbours(), k=draw.choice([0, 0, 0, 1, 2]))):
        most = len(free) - bool(registry[name].servers[0])
        workers = draw.randint(2, max(2, min(6, most)))
        jobs.append(_job(draw, name, free[:workers], free[workers:]))
        free = [host for host in free if host not in _hosts(jobs[-1])]
        if len(free) < _LEAST_HOSTS:
            break
    emulation: dict[str, Any] = {"scale": 1, "seed": draw.randint(1, 1 << 30)}
    for what, share in (("loss", 0.03), ("duplication", 0.1)):
        if draw.random() < 0.4:
            emulation[what] = {"all": round(share * draw.random() ** 2, 6)}
    if any(registry[job["system"]].sparse == "values" for job in jobs):
        emulation["carried_values"] = "all"
    return {
        "schema_version": 1,
        "name": "torture",
        "backend": "packet",
        "fabric": fabric,
        "jobs": jobs,
        "emulation": emulation,
    }


def _hosts(job: dict[str, Any]) -> set[str]:
    return {*job["workers"], *job.get("servers", ())}


def _job(draw: random.Random, name: str, workers: list[str], others: list[str]) -> dict[str, Any]:
    system = registry[name]
    least, most = system.servers
    tensors, kilobytes = draw.randint(1, 5), draw.choice([1, 4, 16, 32])
    compute = draw.choice(["0us", "50us", "500us"])
    job: dict[str, Any] = {
        "system": name,
        "workload": f"synthetic/{tensors}x{kilobytes}KB/{compute}",
        "workers": workers,
        "iterations": draw.randint(1, 2),
        "warmup": draw.randint(0, 1),
        "bucket": draw.choice(["8KB", "32KB", "1MB"]),
        "first_bucket": draw.choice(["4KB", "16KB"]),
        "options": {**system.fallback, **_options(draw, name)},
    }
    if most:
        job["servers"] = others[: draw.randint(max(1, least), max(1, least, min(most, 2)))]
        if not job["servers"]:
            job["servers"], job["colocated"] = workers[:1], True
    if draw.random() < 0.1:
        job["compute"] = {"jitter": 0.5}
    if draw.random() < 0.1:
        job["order"] = "priority"
    if system.sparse:
        job["density"] = draw.choice([1, 0.5, 0.1, 0.01])
    return job


def _options(draw: random.Random, name: str) -> dict[str, Any]:
    """Random values for options of known kinds: choices, small numbers, and numbers of bytes."""
    system, found = registry[name], {}
    for option, field in system.options.model_fields.items():
        if draw.random() < 0.5:
            continue
        kinds = {field.annotation, *typing.get_args(field.annotation)}
        if typing.get_origin(field.annotation) is typing.Literal:
            found[option] = draw.choice(typing.get_args(field.annotation))
        elif int in kinds:
            sizes = [each for each in field.examples or () if isinstance(each, int)]
            is_size = max(sizes, default=0) >= _LEAST_SIZE
            found[option] = draw.choice(_SIZES if is_size else [1, 2, 3, 4, 8, 16, 64])
        try:
            system.settle(found)
        except ValueError:
            found.pop(option, None)
    return found


def _schedule(system: str, seed: int, deployment: Deployment) -> list[dict[str, Any]]:
    draw = random.Random(f"{system}/{seed}")
    span = max(1e-4, *(job.expected_end_s for job in deployment.jobs))
    return list(_faults(draw, deployment, span))


def _faults(draw: random.Random, deployment: Deployment, span: float) -> Iterator[dict[str, Any]]:
    fabric = deployment.fabric
    links = [f"{link.a}-{link.b}" for link in fabric.links]
    if draw.random() < 0.1:
        yield {"at": "0s", "wrap": draw.choice([1, 2, 7, 30, 100])}
    for _ in range(draw.choice([0, 1, 1, 2, 3, 5, 8])):
        yield _transient(draw, deployment, links, span)
    if draw.random() < _DEAD:
        at = _time(span * 1.2 * draw.random())
        if draw.random() < 0.6:
            yield {"at": at, "host": draw.choice(_used(deployment))}
        else:
            yield {"at": at, "link": draw.choice(links)}


def _transient(
    draw: random.Random, deployment: Deployment, links: list[str], span: float
) -> dict[str, Any]:
    fabric = deployment.fabric
    at = 0.0 if draw.random() < 0.1 else span * 1.5 * draw.random()
    lasts = 10 ** draw.uniform(-5, -2.3)
    spell: dict[str, Any] = {"at": _time(at), "until": _time(at + lasts)}
    kind = draw.choice(
        ["down", "impaired", "impaired", "impaired", "memory", "off", "tables", "pause", "stranger"]
    )
    if kind == "down":
        return {**spell, "link": draw.choice(links)}
    if kind == "impaired":
        impaired: dict[str, Any] = {
            "link": draw.choice(links),
            "delay": _time(10 ** draw.uniform(-6, -2.5)),
        }
        for what, most in (
            ("loss", 0.5), ("duplication", 1), ("corruption", 0.5), ("reordering", 1),
        ):  # fmt: skip
            if draw.random() < 0.5:
                impaired[what] = round(most * draw.random(), 4)
        return {**spell, "reordering": 0.5, **impaired}
    if kind in ("memory", "off", "tables"):
        switch = draw.choice(_summing(deployment) or list(fabric.switches))
        if kind == "memory":
            return {"at": _time(at), "switch": switch}
        if kind == "tables":
            spell["tables"] = draw.randint(0, 1 << 30)
        return {**spell, "switch": switch}
    host = draw.choice(_used(deployment))
    if kind == "pause":
        return {**spell, "host": host}
    to = draw.choice([*fabric.switches, *_used(deployment)])
    port, packet = payload(draw, deployment)
    return {"at": _time(at), "host": host, "to": to, "port": port, "packet": packet.hex()}


def _used(deployment: Deployment) -> list[str]:
    return sorted({host for job in deployment.jobs for host in job.plan.hosts})


def _summing(deployment: Deployment) -> list[str]:
    trees = [tree for job in deployment.jobs for tree in job.plan.trees]
    return sorted({switch for tree in trees for switch in tree.switches})


def _time(seconds: float) -> str:
    """A time as text, in whole nanoseconds, for which twelve digits suffice. `format_time` takes as
    long as a small run."""
    return f"{round(seconds, 9) * 1e6:.12g}us"
