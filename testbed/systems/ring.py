"""Ring all-reduce: reduce-scatter, then all-gather, around a ring of the workers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from testbed.experiment.options import Options
from testbed.plan.program import Pipelining, Plan
from testbed.plan.stages import Ring, Stages, Turn
from testbed.systems.racks import by_rack, dealt
from testbed.systems.system import Assignment, System
from testbed.topology.fabric import Fabric


def plan(job: Assignment, fabric: Fabric) -> Plan:
    """N chunks that go around the ring twice."""
    if job.options.get("order") == "naive":
        order = dealt(job.workers, fabric)
    else:
        racks = by_rack(job.workers, fabric).values()
        order = tuple(host for rack in racks for host in rack)
    ranks = {host: rank for rank, host in enumerate(job.workers)}
    ring = [ranks[host] for host in order]
    chunks = tuple((chunk,) for chunk in range(len(ring)))
    in_flight = job.options.get("in_flight")
    return Plan(
        system="ring",
        hosts=job.workers,
        workers=len(ring),
        chunks=len(ring),
        programs=Stages(len(ring), [(Ring(hops(ring), chunks, Turn.BOTH),)]),
        pipelining=Pipelining(credit=in_flight),
    )


def hops(ring: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Each position's rank and the rank of the next position."""
    return tuple(zip(ring, (*ring[1:], ring[0]), strict=True))


class RingOptions(Options):
    """The order of workers on the ring, and how many buckets go around at once."""

    order: Literal["rack", "naive"] = Field(
        default="rack",
        description="one of rack, naive (a worker of each rack in turn)",
        examples=["rack"],
    )
    in_flight: int | None = Field(
        default=None,
        ge=1,
        description="the buckets that a worker has in flight at most, a whole number of at least 1;"
        " unset, any number",
        examples=[1],
    )


SYSTEM = System(
    name="ring",
    title="Ring",
    colour="#1f77b4",
    marker="o",
    citation="Patarasuk and Yuan, Bandwidth Optimal All-reduce Algorithms for Clusters of "
    "Workstations, JPDC 69(2), 2009",
    published=(
        "N chunks, N-1 steps of reduce-scatter, N-1 steps of all-gather; each worker sends and "
        "receives 2(N-1)/N of the gradient.",
        "A step's chunk must have arrived before the next step sends it on.",
    ),
    reading=(
        "Workers are ordered rack by rack, so that the ring enters and leaves each rack once. The "
        "option order: naive takes one worker of each rack in turn, so that every step crosses "
        "racks as long as they are equally filled.",
        "A worker has any number of buckets in flight. The option in_flight bounds them: libraries "
        "such as NCCL finish a collective before they begin the next one of its stream, which is "
        "in_flight: 1 (from memory, not looked up).",
    ),
    servers=(0, 0),
    baseline=2,
    reference=True,
    calibrates="hosts",
    plan=plan,
    options=RingOptions,
)
