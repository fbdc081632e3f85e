"""The task of each rank of a deployed job, on the emulator's clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

from testbed.deployment.deploy import DeployedJob
from testbed.hosts.layout import Layout
from testbed.hosts.task import Task
from testbed.plan.program import Plan
from testbed.protocols import protocol_of
from testbed.protocols.allocation import Allocation, Window
from testbed.protocols.roles import Neighbours, Place, Role
from testbed.topology.fabric import Fabric
from testbed.topology.framing import superframe
from testbed.workload.gradients import LARGEST_CONSTANT, Gradients
from testbed.workload.quantise import BlockExponent, Factor, Quantiser
from testbed.workload.sparse import Density, SparseGradients

LONGEST_TICK_S = 0.004
"""Every transfer ends on a tick, so longer ticks would be visible in the emulated times."""


def tasks(
    job: DeployedJob,
    allocations: Sequence[Allocation],
    addresses: Mapping[str, str],
    dilation: float,
    seed: int,
    carried: int | None = None,
) -> list[Task]:
    """One task per rank of ``job``, with its ``allocations``; ``addresses`` maps nodes to IP.

    ``carried``: how many of a packet's values are really carried; None for all.
    """
    plan, values = job.plan, job.fabric.values
    carried = carried or values
    truth = gradients(job, seed + job.number, carried)
    truth.draw()  # before the ranks are forked, so that they share the memory
    units = tuple(replace(unit, ready_s=unit.ready_s * dilation) for unit in job.units)
    layout = Layout(plan, units, values, carried)
    every = tuple(addresses[host] for host in plan.hosts)
    return [
        Task(
            plan=plan,
            rank=rank,
            job=job.number,
            addresses=every,
            units=units,
            compute_s=job.compute_s * dilation,
            gradients=truth,
            paces=job.paces[rank] if rank < plan.workers else (1.0,) * len(job.paces[0]),
            trees=tuple(
                role(plan, rank, each, addresses, job.window, job.fabric) for each in allocations
            ),
            start_s=(job.start_s + job.gap_s * rank * (rank < plan.workers)) * dilation,
            step_s=job.step_s * dilation,
            # Endpoints may gather packets for a quarter of the time that a window lasts.
            tick_s=min(job.window.drain_s * dilation / 4, LONGEST_TICK_S),
            values=values,
            carried=carried,
            burst=max(1, min(job.window.fragments // 8, superframe(job.fabric))),
            forward=tuple(replace(part, seconds=part.seconds * dilation) for part in job.forward),
            parts=tuple(part * dilation for part in job.parts),
            notes_updates=job.job.training is not None,
            shared_layout=layout,
        )
        for rank in plan.ranks
    ]


def gradients(job: DeployedJob, seed: int, carried: int | None = None) -> Gradients:
    """The gradients that the workers contribute. Only ``carried`` values of each packet are made;
    None means all."""
    if job.learnt is not None:
        return job.learnt
    told, workers = job.job, job.plan.workers
    carried = carried or job.fabric.values
    layout = Layout(job.plan, job.units, job.fabric.values, carried)
    elements = layout.elements
    quantiser: Quantiser | None = None
    if job.sample is not None and told.quantisation == "factor":
        # A sample's values are scaled to unit deviation; the factor applies to the original ones.
        quantiser = Factor(told.factor * job.sample.rms)
    elif job.sample is not None and told.quantisation == "block_exponent":
        drawn = (job.sample.draw(seed, rank, elements) for rank in range(workers))
        quantiser = BlockExponent.agreed(drawn, workers, carried, room=LARGEST_CONSTANT)
    if told.density != 1:
        return SparseGradients(
            seed,
            workers,
            [1] * elements if job.system.sparse == "values" else layout.packets(),
            cast(Density, told.density),
            fixed_point=told.fixed_point,
            sample=job.sample,
            quantiser=quantiser,
        )
    return Gradients(seed, workers, elements, told.fixed_point, job.sample, quantiser)


def role(
    plan: Plan,
    rank: int,
    allocation: Allocation,
    addresses: Mapping[str, str],
    window: Window,
    fabric: Fabric,
) -> Role | Neighbours | None:
    """The part of ``rank`` in a tree, None if it has none; ``addresses`` maps nodes to IP."""
    if rank not in allocation.tree.participants:
        return None
    place = Place(plan, rank, allocation, addresses, window, fabric)
    return protocol_of(allocation.tree).role(place)
