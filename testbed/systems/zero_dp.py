"""ZeRO-DP: each worker sums the gradients of its shard, and sends its parameters to all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import chain
from operator import add
from typing import Literal, TypeAlias

from pydantic import Field

from testbed.plan import chain as dependencies
from testbed.plan import cost
from testbed.plan.program import (
    Multicast,
    Pipelining,
    Plan,
    Program,
    Sharding,
    SwitchReduce,
)
from testbed.plan.stages import Stages
from testbed.plan.trees import Tree
from testbed.protocols.rack.protocol import PROTOCOL as RACK
from testbed.systems import atp, hierarchical_ring, rina, ring, shard_ring
from testbed.systems.grid import streams
from testbed.systems.system import Assignment, System, WithWindow
from testbed.topology.fabric import Fabric
from testbed.topology.paths import spread
from testbed.workload.buckets import BUCKET_BYTES

PIPELINING = Pipelining(partition=4_000_000)
"""Used on trees, so that the parameters of one piece go down while the gradients of the next go
up."""

PIECES = {"partition": 1_000_000, "credit": 4}
"""Used on hierarchical rings, so that the streams of two stages do not overflow a port's queue."""


Halves: TypeAlias = tuple[Plan, Sequence[Program], Sequence[Program]]
"""The plan of stage 2, and its programs that reduce-scatter and that all-gather."""


def plan(job: Assignment, fabric: Fabric) -> Plan:
    """A chunk for each owner, summed on the way to it and copied from it; rings where no switch
    sums."""
    options = SYSTEM.settle({}) | dict(job.options)
    sharded, reshard = options["stage"] == 3, options["reshard_after_forward"]
    if not (sharded or reshard):
        raise ValueError(
            "zero-dp: option reshard_after_forward: found false, wanted true or nothing in stage 2,"
            " where parameters stay in all workers; write stage: 3 with it"
        )

    def staged(halves: Halves) -> Plan:
        whole, scatter, gather = halves
        if not sharded:
            return whole
        sharding = Sharding(gather, reshard)
        return replace(whole, programs=scatter, pipelining=Pipelining(), sharding=sharding)

    collectives = options["collectives"]
    if collectives == "hierarchical":
        rings = hierarchical_ring.plan(replace(job, options=PIECES), fabric)
    else:
        rings = ring.plan(replace(job, options={}), fabric)
    alone = staged(_on_rings(rings))
    if collectives == "trees" and (on_trees := _on_trees(job, fabric)):
        return staged(on_trees)
    if collectives == "rina" and (grouped := _on_groups(job, fabric)):
        return min(alone, staged(grouped), key=lambda each: _seconds(each, fabric))
    return alone


def _on_rings(rings: Plan) -> Halves:
    assert isinstance(rings.programs, Stages)
    return replace(rings, system="zero-dp"), *rings.programs.halves()


def _on_trees(job: Assignment, fabric: Fabric) -> Halves | None:
    """A tree towards each owner, and from it. None if no switch sums."""
    owners = range(len(job.workers))
    up = [_tree(job, fabric, owner) for owner in owners]
    if not any(tree.switches for tree in up):
        return None
    scatter = tuple(SwitchReduce(owner, owner) for owner in owners)
    gather = tuple(Multicast(owner, len(up) + owner) for owner in owners)
    program: Program = tuple(chain.from_iterable(zip(scatter, gather, strict=True)))
    routes = spread(fabric, streams(up, [Fraction(1, len(up))] * len(up)))
    whole = replace(_whole(job, (program,) * len(up), up), routes=routes)
    return whole, (scatter,) * len(up), (gather,) * len(up)


def _on_groups(job: Assignment, fabric: Fabric) -> Halves | None:
    """Rina's ring, in which racks are groups. None if there is no group."""
    groups = rina.groups(replace(job, options={}), fabric)
    if not any(group.tor for group in groups):
        return None
    scatter, gather, trees = shard_ring.collectives(groups, job.workers)
    whole = _whole(job, tuple(map(add, scatter, gather)), trees)
    flows = cost.flows(whole)
    # First come the streams of reduce-scatter, which all go the same way around the ring. Those of
    # all-gather take the links that are left.
    forwards = {edge: flows[edge] for tree in trees for edge in tree.parent.items()}
    routes = spread(fabric, flows, spread(fabric, forwards))
    return replace(whole, routes=routes), scatter, gather


def _whole(job: Assignment, programs: Sequence[Program], trees: Sequence[Tree]) -> Plan:
    """The plan of stage 2 on ``trees``, which serve reduce-scatter first and then all-gather."""
    return Plan(
        system="zero-dp",
        hosts=job.workers,
        workers=len(job.workers),
        chunks=len(job.workers),
        programs=programs,
        trees=(*trees, *trees),
        pipelining=PIPELINING,
    )


def _seconds(plan: Plan, fabric: Fabric) -> float:
    """The time of a bucket among others. In stage 3 the forward pass only gathers, so nothing
    uses the links of the other direction meanwhile."""
    passes = [plan]
    if plan.sharding is not None:
        (scatter, _), (gather, _) = plan.collectives
        once = replace(plan, sharding=replace(plan.sharding, reshard=False))
        passes = [gather, once if plan.sharding.reshard else scatter]
    return sum(
        BUCKET_BYTES * cost.seconds_per_byte(each, fabric)
        + fabric.step_latency * dependencies.length(each)
        for each in passes
    )


def _tree(job: Assignment, fabric: Fabric, owner: int) -> Tree:
    """The tree of all other workers towards ``owner``: their ToRs, its ToR, and itself."""
    others = tuple(host for rank, host in enumerate(job.workers) if rank != owner)
    towards = atp.tree(Assignment(others, (job.workers[owner],)), fabric)
    ranks = {host: rank for rank, host in enumerate(job.workers) if rank != owner}
    return replace(towards, rank_of=ranks, protocol=RACK, root_rank=owner)


class ZeroOptions(WithWindow):
    """What is sharded, and what carries the collectives."""

    stage: Literal[2, 3] = Field(
        default=2,
        description="2 (gradients and optimizer state are sharded, as in stage 1) or 3 (parameters,"
        " too, as in FSDP: gathered before each forward and backward pass of a bucket)",
        examples=[3],
    )
    reshard_after_forward: bool = Field(
        default=True,
        description="in stage 3, whether parameters are dropped after the forward pass and gathered"
        " again before the backward pass, true or false",
        examples=[False],
    )

    collectives: Literal["trees", "ring", "hierarchical", "rina"] = Field(
        default="trees",
        description="what carries reduce-scatter and all-gather, one of trees (switches sum towards"
        " each owner and copy its parameters; a ring where none sums), ring, hierarchical (rings"
        " within racks and across them) or rina (a ring of racks, whose ToRs sum and copy, and of"
        " single workers; a ring of workers where that is as fast)",
        examples=["trees"],
    )


SYSTEM = System(
    name="zero-dp",
    title="ZeRO-DP",
    colour="#c49c94",
    marker="1",
    citation="Rajbhandari et al., ZeRO: Memory Optimizations Toward Training Trillion Parameter "
    "Models, SC 2020",
    published=(
        "Each of N workers owns 1/N of gradients and optimizer state. Gradients are reduced to "
        "their owners, which update their shards; updated parameters are gathered by all.",
        "With gradients and optimizer state sharded a worker sends and receives as much as in "
        "all-reduce, 2(N-1)/N M over rings.",
        "With parameters sharded, too (stage 3), they are gathered before they are needed and then "
        "dropped, for the forward pass and again for the backward pass: 1.5 times as much.",
    ),
    reading=(
        "By default parameters stay in all workers between iterations (stages 1 and 2).",
        "Stage 3 has the timing of PyTorch's FSDP, from its notes: the next group of tensors is "
        "gathered while the current one computes, and computation waits for what it needs. A group "
        "is a bucket of the job; FSDP wraps a transformer's blocks. The last group of the forward "
        "pass is dropped, too, and gathered at once for the backward pass. With the option "
        "reshard_after_forward: false all parameters stay until their gradients are summed.",
        "In stage 3 a forward pass begins when the worker has all sums of its own shards.",
        "A shard's parameters leave as soon as its gradients are summed: the optimizer takes no "
        "time, and is the identity where sums are checked.",
        "Every bucket is cut into the owners' shards; ZeRO's libraries cut the whole model.",
        "On trees the other workers' ToRs sum their racks, the owner's ToR sums these streams and "
        "its own rack's, and the owner adds the sum to its part. Parameters go down the same tree, "
        "where switches copy them. So a worker sends and receives about M, as in in-network "
        "all-reduce. Pieces of at most 4 MB follow one another, so that one "
        "goes down while the next goes up. A controller chooses each stream's way among equally "
        "short ones, as for GRID; so it does for Rina's ring.",
        "On hierarchical rings pieces have at most 1 MB, and a worker has four in flight.",
        "With collectives: rina the ring is Rina's with its reading: stream. Rina splits the model "
        "by the number of groups, but ZeRO needs a shard for each worker. So a shard passes all "
        "other groups, a rack's ToR adds its workers' packets to the stream, and the last ToR "
        "sends the sum to the owner, not to the rack's agent. Rina's sources do not say how "
        "all-gather goes around: here the owner's parameters take the same way back, and ToRs "
        "copy them. Groups form only if buckets that follow one another take less time with them "
        "in closed form; otherwise there is a ring of workers.",
    ),
    servers=(0, 0),
    aggregates=True,
    plan=plan,
    options=ZeroOptions,
)
