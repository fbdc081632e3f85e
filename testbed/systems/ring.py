"""Ring all-reduce: reduce-scatter, then all-gather, round a ring of the workers."""

from __future__ import annotations

from testbed.plan.program import Operation, Plan, Receive, Send
from testbed.systems.system import Assignment, System
from testbed.topology.fabric import Fabric


def plan(job: Assignment, fabric: Fabric) -> Plan:
    """N chunks; in step t rank r sends chunk r-t to r+1 and takes chunk r-t-1 from r-1."""
    workers = len(job.workers)
    return Plan(
        system="ring",
        hosts=job.workers,
        workers=workers,
        chunks=workers,
        programs=tuple(_program(rank, workers) for rank in range(workers)),
    )


def _program(rank: int, workers: int) -> tuple[Operation, ...]:
    successor, predecessor = (rank + 1) % workers, (rank - 1) % workers
    operations: list[Operation] = []
    for step in range(2 * (workers - 1)):
        operations += [
            Send((rank - step) % workers, successor),
            Receive((rank - step - 1) % workers, predecessor, reduce=step < workers - 1),
        ]
    return tuple(operations)


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
    reading=("Ranks are ordered rack by rack, so that the ring enters and leaves a rack once.",),
    servers=(0, 0),
    plan=plan,
    steps=lambda plan: 2 * (plan.workers - 1),
)
