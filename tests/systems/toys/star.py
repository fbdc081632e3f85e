"""A toy: worker 0 sums the gradients of the others, and sends them the sum."""

from __future__ import annotations

from pydantic import Field

from testbed.experiment.options import Options
from testbed.plan.program import Plan, Receive, Send
from testbed.systems.system import Assignment, System
from testbed.topology.fabric import Fabric


def plan(job: Assignment, fabric: Fabric) -> Plan:
    others = range(1, len(job.workers))
    centre = (*(Receive(0, rank, reduce=True) for rank in others), *(Send(0, r) for r in others))
    return Plan(
        system="star",
        hosts=job.workers,
        workers=len(job.workers),
        chunks=1,
        programs=(centre, *((Send(0, 0), Receive(0, 0, reduce=False)) for _ in others)),
    )


class StarOptions(Options):
    """One option, which is checked and described."""

    rays: int = Field(default=5, description="a number", examples=[5])


SYSTEM = System(
    name="star",
    title="Star",
    colour="#000000",
    marker="*",
    citation="none: a toy",
    published=("One worker sums for all.",),
    reading=("It is the worker of rank 0.",),
    servers=(0, 0),
    plan=plan,
    options=StarOptions,
)
