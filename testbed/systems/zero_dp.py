"""ZeRO-DP: each worker sums the gradients of its shard, and sends its parameters to all."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Literal

from pydantic import Field

from testbed.plan.program import Multicast, Operation, Pipelining, Plan, SwitchReduce
from testbed.plan.trees import Tree
from testbed.protocols.rack.protocol import PROTOCOL as RACK
from testbed.systems import atp, hierarchical_ring, ring
from testbed.systems.grid import streams
from testbed.systems.system import Assignment, System, WithWindow
from testbed.topology.fabric import Fabric
from testbed.topology.paths import spread

PIPELINING = Pipelining(partition=4_000_000)
"""On trees, so that one piece's parameters go down while the next one's gradients go up."""


def plan(job: Assignment, fabric: Fabric) -> Plan:
    """A chunk for each owner, on trees towards it and from it; rings where no switch sums."""
    asked = (SYSTEM.settle({}) | dict(job.options))["collectives"]
    if asked != "trees":
        rings = hierarchical_ring.plan if asked == "hierarchical" else ring.plan
        return replace(rings(replace(job, options={}), fabric), system="zero-dp")
    owners = range(len(job.workers))
    up = [_tree(job, fabric, owner) for owner in owners]
    if not any(tree.switches for tree in up):
        return replace(ring.plan(replace(job, options={}), fabric), system="zero-dp")
    around: tuple[Operation, ...] = tuple(
        operation
        for owner in owners
        for operation in (SwitchReduce(owner, owner), Multicast(owner, len(up) + owner))
    )
    return Plan(
        system="zero-dp",
        hosts=job.workers,
        workers=len(job.workers),
        chunks=len(job.workers),
        programs=(around,) * len(job.workers),
        trees=(*up, *up),
        pipelining=PIPELINING,
        routes=spread(fabric, streams(up, [Fraction(1, len(up))] * len(up))),
    )


def _tree(job: Assignment, fabric: Fabric, owner: int) -> Tree:
    """The tree of all other workers towards ``owner``: their ToRs, its ToR, and itself."""
    others = tuple(host for rank, host in enumerate(job.workers) if rank != owner)
    towards = atp.tree(Assignment(others, (job.workers[owner],)), fabric)
    ranks = {host: rank for rank, host in enumerate(job.workers) if rank != owner}
    return replace(towards, rank_of=ranks, protocol=RACK, root_rank=owner)


class ZeroOptions(WithWindow):
    """What carries the collectives."""

    collectives: Literal["trees", "ring", "hierarchical"] = Field(
        default="trees",
        description="what carries reduce-scatter and all-gather, one of trees (switches sum towards"
        " each owner and copy its parameters; a ring where none sums), ring or hierarchical (rings"
        " within racks and across them)",
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
    ),
    reading=(
        "Parameters stay in all workers between iterations (stages 1 and 2). Sharded parameters "
        "(stage 3, FSDP) are gathered twice in an iteration, and are not run.",
        "A shard's parameters leave as soon as its gradients are summed: the optimizer takes no "
        "time, and is the identity where sums are checked.",
        "Every bucket is cut into the owners' shards; the libraries cut the whole model.",
        "On trees the other workers' ToRs sum their racks, the owner's ToR sums these streams and "
        "its own rack's, and the owner adds the sum to its part. Parameters go down the same tree, "
        "where switches copy them. So a worker sends and receives about M, as in in-network "
        "all-reduce. Pieces of at most 4 MB follow one another, so that one "
        "goes down while the next goes up.",
    ),
    servers=(0, 0),
    aggregates=True,
    plan=plan,
    options=ZeroOptions,
)
