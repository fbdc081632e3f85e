"""The fabric of an experiment."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import lru_cache

from testbed.experiment import fabrics
from testbed.experiment.schema import Experiment, Job
from testbed.systems import registry
from testbed.topology import builders, placement
from testbed.topology.fabric import Fabric


def build_fabric(experiment: Experiment) -> Fabric:
    """The fabric of a resolved experiment, with its INA switches chosen. Raises DeploymentError."""
    wanted, fabric = experiment.fabric, without_ina(experiment)
    if isinstance(wanted.ina, tuple):
        return fabric.with_ina(wanted.ina)
    if isinstance(wanted.ina, str):
        share: int | float = {"all": 1.0, "none": 0.0}[wanted.ina]
        policy = "fullest"
    else:
        share, policy = wanted.ina, wanted.ina_policy
    chosen = placement.ina_switches(
        fabric,
        share,
        "fullest" if policy == "best" else policy,
        wanted.ina_tier,
        experiment.emulation.seed,
    )
    if policy == "best":
        return fabric.with_ina(_best(what_matters(experiment), len(chosen)))
    return fabric.with_ina(chosen)


def without_ina(experiment: Experiment) -> Fabric:
    """The fabric without INA switches. DeploymentError if it cannot be built."""
    wanted = experiment.fabric
    fabric = _bare(wanted)
    capacity = wanted.capacity
    if capacity is None or isinstance(capacity, float):
        capacity = dict.fromkeys(fabric.switches, capacity) if capacity else {}
    return replace(
        fabric,
        slots=wanted.slots,
        values=wanted.values,
        mtu=wanted.mtu,
        capacity=capacity,
        step_latency=wanted.step_latency,
        packet_cost=wanted.packet_cost,
        message_cost=wanted.message_cost,
        link_delay=wanted.link_delay,
        pipeline_latency=wanted.pipeline_latency,
    )


def _bare(wanted: fabrics.Fabric) -> Fabric:
    """The fabric's nodes and links only."""
    if isinstance(wanted, fabrics.Graph):
        links = [(*link.ends, link.rate) for link in wanted.links]
        return builders.graph(wanted.switches, links, wanted.host_rate, wanted.queue)
    if isinstance(wanted, fabrics.Circuits):
        fabric = builders.circuits(wanted.hosts, wanted.jumps, wanted.host_rate, wanted.queue)
        return replace(fabric, reconfiguration=wanted.reconfiguration)
    rates = wanted.host_rate, wanted.uplink_rate, wanted.queue
    if isinstance(wanted, fabrics.FatTree):
        return builders.fat_tree(wanted.k, wanted.racks, *rates)
    return builders.leaf_spine(wanted.spines, wanted.leaves, wanted.racks, *rates)


def what_matters(experiment: Experiment) -> str:
    """All parts of an experiment that its fabric and plans depend on, as text."""
    data = experiment.data()
    kept = {key: data[key] for key in ("schema_version", "name", "fabric", "jobs")}
    emulation = {key: data["emulation"][key] for key in ("scale", "seed")}
    if not _draws(experiment):
        del emulation["seed"]
    return json.dumps({**kept, "emulation": emulation}, sort_keys=True)


def _draws(experiment: Experiment) -> bool:
    """Whether a deployment depends on the seed."""
    return experiment.fabric.ina_policy == "random" or any(
        job.placement == "random" or job.compute is not None or _planned_by_chance(job)
        for job in experiment.jobs
    )


def _planned_by_chance(job: Job) -> bool:
    system = registry.get(job.system)  # None in a resumed run of another version
    return system is not None and system.options.model_validate(job.options).draws_anew()


@lru_cache(maxsize=256)
def _best(experiment: str, budget: int) -> tuple[str, ...]:
    """Cached, because the search takes long, and a cell's fabric is needed several times."""
    from testbed.placement.best import best_switches  # loads the simulator, rarely needed

    resolved = Experiment.model_validate_json(experiment)
    return best_switches(resolved, without_ina(resolved), budget).switches
