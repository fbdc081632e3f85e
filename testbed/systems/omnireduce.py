"""OmniReduce: blocks of zeros are not sent; workers continue with the next block that is not zero.

In the released code's variant for networks that lose packets, every worker answers every sum, with
zeros if need be. So each link carries, in both directions, all blocks that are not zero at some
worker: with independent blocks of density D at N workers, the share U = 1 - (1 - D)^N of all
blocks.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from pydantic import Field

from testbed.plan.program import Plan, SwitchAllReduce
from testbed.protocols.omnireduce.protocol import PROTOCOL as OMNIREDUCE
from testbed.systems import ring
from testbed.systems.racks import root, tree_to
from testbed.systems.system import Assignment, System, WithWindow
from testbed.topology.fabric import Fabric


def plan(job: Assignment, fabric: Fabric) -> Plan:
    """One tree whose root is a switch. If no switch sums, the job is not admitted, or is a ring."""
    options = SYSTEM.settle({}) | dict(job.options)
    top = root(job.workers, fabric)
    if top is None:
        if options["without_ina"] == "refuse":
            raise ValueError(
                "omnireduce: not admitted: no switch sums, and a switch is its aggregator; give INA"
                " to a worker's ToR or a switch above, leave the job out, or take the option"
                " without_ina: ring"
            )
        return replace(ring.plan(replace(job, options={}), fabric), system="omnireduce")
    return Plan(
        system="omnireduce",
        hosts=job.workers,
        workers=len(job.workers),
        chunks=1,
        programs=((SwitchAllReduce(chunk=0, tree=0),),) * len(job.workers),
        trees=(tree_to(top, job.workers, fabric, OMNIREDUCE),),
    )


class OmniReduceOptions(WithWindow):
    """How many slots the job has, and what happens if no switch sums."""

    without_ina: Literal["refuse", "ring"] = Field(
        default="refuse",
        description="where no switch sums, one of refuse (the job is not admitted) or ring (its"
        " workers run ring all-reduce, which sends zeros like all values)",
        examples=["refuse"],
    )


SYSTEM = System(
    name="omnireduce",
    title="OmniReduce",
    colour="#1b7f79",
    marker="2",
    citation="Fei et al., Efficient Sparse Collective Communication and its Application to "
    "Accelerate Distributed Deep Learning, SIGCOMM 2021",
    published=(
        "A gradient is cut into blocks, and blocks of zeros are not sent. With each block a worker "
        "names its next one that is not zero; the aggregator waits for the least of these.",
        "The sum of a block goes to all workers, whoever had values for it.",
        "Where packets may be lost, each worker answers each sum, with a packet of zeros if it has "
        "no values for the block, so that a slot counts its workers as SwitchML's does.",
        "The first blocks of a tensor, one for each slot, are always sent.",
    ),
    reading=(
        "The paper's text was not available to us, only the released code; that has servers as "
        "aggregators, and the paper's in-network form is not in it. Here a switch is the "
        "aggregator: SwitchML's slot with a register for the least next block.",
        "A block is a packet's values; the code's fusion of several small blocks is left out.",
        "Its time, for independent blocks, is U S/B with U = 1 - (1 - D)^N: the blocks that are "
        "not zero at some worker. This formula is ours.",
        "The form for networks without loss, in which a worker without values is silent, needs the "
        "least of all workers' positions at each packet, which a slot cannot compute.",
        "The tree is SwitchML's: its root is the INA switch above the workers' ToRs nearest to "
        "all of them or, without one above, the INA ToR with the most workers; among equals, "
        "jobs that share racks have different roots and links. Other INA switches on the way sum, "
        "too, and workers below other ToRs send to the next of these switches.",
        "Which blocks are zero does not change from iteration to iteration.",
        "If no switch sums, the job is not admitted; with without_ina: ring it is a ring.",
    ),
    servers=(0, 0),
    aggregates=True,
    sparse="packets",
    plan=plan,
    fallback={"without_ina": "ring"},
    options=OmniReduceOptions,
)
