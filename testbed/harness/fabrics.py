"""The fabric that an experiment asks for."""

from __future__ import annotations

from dataclasses import replace

from testbed.dataplane import wire
from testbed.experiment import fabrics
from testbed.experiment.schema import Experiment
from testbed.harness.errors import DeploymentError
from testbed.topology import builders, placement
from testbed.topology.fabric import Fabric


def build_fabric(experiment: Experiment) -> Fabric:
    """The fabric of a resolved experiment, with its INA ToRs chosen. DeploymentError if not."""
    wanted = experiment.fabric
    if wanted.slots > wire.SLOTS:
        raise DeploymentError(
            f"fabric.slots: found {wanted.slots}, wanted at most {wire.SLOTS}, the compiled "
            "program's memory; lower it, or compile p4/ with a larger SLOTS"
        )
    fabric = _bare(wanted)
    capacity = wanted.capacity
    if capacity is None or isinstance(capacity, float):
        capacity = dict.fromkeys(fabric.switches, capacity) if capacity else {}
    fabric = replace(
        fabric, slots=wanted.slots, capacity=capacity, step_latency=wanted.step_latency
    )
    if isinstance(wanted.ina, tuple):
        return fabric.with_ina(wanted.ina)
    share = {"all": 1.0, "none": 0.0}[wanted.ina] if isinstance(wanted.ina, str) else wanted.ina
    seed = experiment.emulation.seed
    return fabric.with_ina(
        placement.ina_switches(fabric, share, wanted.ina_policy, wanted.ina_tier, seed)
    )


def _bare(wanted: fabrics.Fabric) -> Fabric:
    """The fabric's nodes and links alone."""
    if isinstance(wanted, fabrics.Graph):
        links = [(*link.ends, link.rate) for link in wanted.links]
        return builders.graph(wanted.switches, links, wanted.host_rate, wanted.queue)
    rates = wanted.host_rate, wanted.uplink_rate, wanted.queue
    if isinstance(wanted, fabrics.FatTree):
        return builders.fat_tree(wanted.k, wanted.racks, *rates)
    return builders.leaf_spine(wanted.spines, wanted.leaves, wanted.racks, *rates)
