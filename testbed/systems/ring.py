"""Ring all-reduce: reduce-scatter, then all-gather, round a ring of the workers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import partial
from typing import Literal

from pydantic import Field

from testbed.experiment.options import Options
from testbed.plan.program import LazyPrograms, Operation, Plan, Receive, Ring, Send
from testbed.systems.racks import by_rack, dealt
from testbed.systems.system import Assignment, System
from testbed.topology.fabric import Fabric

Programs = list[list[Operation]]


def plan(job: Assignment, fabric: Fabric) -> Plan:
    """N chunks that go round the ring twice; see ``scatter`` and ``gather``."""
    if job.options.get("order") == "naive":
        order = dealt(job.workers, fabric)
    else:
        racks = by_rack(job.workers, fabric).values()
        order = tuple(host for rack in racks for host in rack)
    ranks = {host: rank for rank, host in enumerate(job.workers)}
    ring = [ranks[host] for host in order]
    length = len(ring)
    both = Ring(2 * (length - 1), Fraction(1, length), hops(ring))
    return Plan(
        system="ring",
        hosts=job.workers,
        workers=length,
        chunks=length,
        programs=LazyPrograms(length, partial(_programs, ring)),
        stretches=((both,),) if length > 1 else (),
    )


def _programs(ring: Sequence[int]) -> Programs:
    programs: Programs = [[] for _ in ring]
    for chunk, source, to in scatter(len(ring)):
        transfer(programs, chunk, ring[source], ring[to], reduce=True)
    for chunk, source, to in gather(len(ring)):
        transfer(programs, chunk, ring[source], ring[to], reduce=False)
    return programs


def hops(ring: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Each position's rank and the next one's."""
    return tuple(zip(ring, (*ring[1:], ring[0]), strict=True))


def scatter(length: int) -> Iterator[tuple[int, int, int]]:
    """Reduce-scatter as (chunk, source, to), positions on a ring, step by step.

    In step t position p passes chunk p-t on. In the end position p has the sum of chunk p+1.
    """
    for step in range(length - 1):
        for position in range(length):
            yield (position - step) % length, position, (position + 1) % length


def gather(length: int) -> Iterator[tuple[int, int, int]]:
    """All-gather, in the same form: in step t position p, which has chunk p+1, passes p+1-t on."""
    for step in range(length - 1):
        for position in range(length):
            yield (position + 1 - step) % length, position, (position + 1) % length


def transfer(programs: Programs, chunk: int, source: int, to: int, *, reduce: bool) -> None:
    """Add to the ranks' programs that ``chunk`` goes from rank ``source`` to rank ``to``."""
    programs[source].append(Send(chunk, to))
    programs[to].append(Receive(chunk, source, reduce))


class RingOptions(Options):
    """Who is next to whom."""

    order: Literal["rack", "naive"] = Field(
        default="rack",
        description="one of rack, naive (a worker of each rack in turn)",
        examples=["rack"],
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
        "Workers are ordered rack by rack, so that the ring enters and leaves a rack once. The "
        "option order: naive takes a worker of each rack in turn, so that every step crosses "
        "racks, as far as they are equally filled.",
    ),
    servers=(0, 0),
    baseline=2,
    reference=True,
    calibrates="hosts",
    plan=plan,
    steps=lambda plan: 2 * (plan.workers - 1),
    options=RingOptions,
)
