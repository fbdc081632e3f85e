"""PANAMA: several aggregation trees side by side, and congestion control by marks on sums."""

from __future__ import annotations

from dataclasses import replace

from pydantic import Field

from testbed.plan.program import Plan, SwitchAllReduce
from testbed.protocols.panama.protocol import PROTOCOL as PANAMA
from testbed.systems import ring
from testbed.systems.racks import jobs_before, merging, two_levels
from testbed.systems.system import Assignment, System, WithWindow
from testbed.topology.fabric import Fabric


def plan(job: Assignment, fabric: Fabric) -> Plan:
    """A chunk and a tree for each switch that can be a root, at most as many as the option
    ``trees``; ring all-reduce if no switch can."""
    tops = merging(job.workers, fabric)
    if not tops:
        return replace(ring.plan(replace(job, options={}), fabric), system="panama")
    first = jobs_before(job.workers, fabric) % len(tops)
    tops = (*tops[first:], *tops[:first])[: job.options.get("trees")]
    uses = tuple(SwitchAllReduce(chunk=each, tree=each) for each in range(len(tops)))
    return Plan(
        system="panama",
        hosts=job.workers,
        workers=len(job.workers),
        chunks=len(uses),
        programs=(uses,) * len(job.workers),
        trees=tuple(
            two_levels(job.workers, fabric, top, PANAMA, number=number)
            for number, top in enumerate(tops)
        ),
    )


class PanamaOptions(WithWindow):
    """How many trees share the gradient, and the largest window on each."""

    trees: int | None = Field(
        default=None,
        ge=1,
        description="the most aggregation trees of the job, a whole number of at least 1; unset,"
        " one for each switch that can be a root",
        examples=[2],
    )


SYSTEM = System(
    name="panama",
    title="PANAMA",
    colour="#006d77",
    marker="|",
    citation="Gebara, Costa and Ghobadi, In-Network Aggregation for Shared Machine Learning "
    "Clusters, MLSys 2021",
    published=(
        "A job has several aggregation trees in a folded Clos fabric, because a single one makes "
        "large flows unbalanced.",
        "There is no server: sums are multicast from the root, and are the acknowledgement.",
        "A contribution marked for congestion (ECN) marks the sum, and hosts react similarly to "
        "DCTCP, so that other flows keep their share.",
    ),
    reading=(
        "Only the abstract was at hand. How many trees a job has and how they are chosen is not in "
        "it: here one for each switch that can be a root, which are the INA switches above the "
        "ToRs nearest to all of them (without any, the INA ToRs with several of the workers). With "
        "fewer trees, jobs that share racks take different roots in turn. Trees between the same "
        "racks take different links.",
        "Trees share each bucket equally, as consecutive parts; a hash of each block comes to the "
        "same parts on average.",
        "If no switch can be a root, the workers run ring all-reduce.",
        "Values are int32 instead of the paper's floats, and lost packets are recovered as in "
        "SwitchML.",
        "The flow simulator shares links fairly among all flows, and has no window or marks.",
    ),
    servers=(0, 0),
    aggregates=True,
    plan=plan,
    options=PanamaOptions,
)
