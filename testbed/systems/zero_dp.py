"""ZeRO-DP: each worker sums the gradients of its shard, and sends its parameters to all."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from itertools import chain
from typing import Literal

from pydantic import Field

from testbed.plan.program import (
    Multicast,
    Operation,
    Pipelining,
    Plan,
    Sharding,
    SwitchReduce,
)
from testbed.plan.stages import Stages
from testbed.plan.trees import Tree
from testbed.protocols.rack.protocol import PROTOCOL as RACK
from testbed.systems import atp, hierarchical_ring, ring
from testbed.systems.grid import streams
from testbed.systems.system import Assignment, System, WithWindow
from testbed.topology.fabric import Fabric
from testbed.topology.paths import spread

PIPELINING = Pipelining(partition=4_000_000)
"""Used on trees, so that the parameters of one piece go down while the gradients of the next go
up."""


def plan(job: Assignment, fabric: Fabric) -> Plan:
    """A chunk for each owner, on trees towards it and from it; rings where no switch sums."""
    options = SYSTEM.settle({}) | dict(job.options)
    sharded, reshard = options["stage"] == 3, options["reshard_after_forward"]
    if not (sharded or reshard):
        raise ValueError(
            "zero-dp: option reshard_after_forward: found false, wanted true or nothing in stage 2,"
            " where parameters stay in all workers; write stage: 3 with it"
        )
    owners = range(len(job.workers))
    trees = options["collectives"] == "trees"
    up = [_tree(job, fabric, owner) for owner in owners] if trees else []
    if not any(tree.switches for tree in up):
        make = hierarchical_ring.plan if options["collectives"] == "hierarchical" else ring.plan
        rings = replace(make(replace(job, options={}), fabric), system="zero-dp")
        if not sharded:
            return rings
        assert isinstance(rings.programs, Stages)
        scatter, gather = rings.programs.halves()
        return replace(rings, programs=scatter, sharding=Sharding(gather, reshard))
    reduced = [SwitchReduce(owner, owner) for owner in owners]
    copied = [Multicast(owner, len(up) + owner) for owner in owners]
    around: Iterable[Operation] = chain.from_iterable(zip(reduced, copied, strict=True))
    program = tuple(reduced if sharded else around)
    return Plan(
        system="zero-dp",
        hosts=job.workers,
        workers=len(job.workers),
        chunks=len(job.workers),
        programs=(program,) * len(job.workers),
        trees=(*up, *up),
        pipelining=Pipelining() if sharded else PIPELINING,
        sharding=Sharding((tuple(copied),) * len(job.workers), reshard) if sharded else None,
        routes=spread(fabric, streams(up, [Fraction(1, len(up))] * len(up))),
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
        "goes down while the next goes up.",
    ),
    servers=(0, 0),
    aggregates=True,
    plan=plan,
    options=ZeroOptions,
)
