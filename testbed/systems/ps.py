"""Parameter server: every worker pushes to the servers, which send the sums back."""

from __future__ import annotations

from testbed.plan.program import Operation, Plan, Receive, Send
from testbed.systems.system import Assignment, System
from testbed.topology.fabric import Fabric

PARTITION = 4_000_000
CREDIT = 4


def plan(job: Assignment, fabric: Fabric) -> Plan:
    """One chunk per server; workers push their chunks, servers sum them in rank order."""
    workers, servers = len(job.workers), len(job.servers)
    if servers == 0:
        raise ValueError("ps needs at least one server")
    push_pull: list[Operation] = [
        *(Send(chunk, workers + chunk) for chunk in range(servers)),
        *(Receive(chunk, workers + chunk, reduce=False) for chunk in range(servers)),
    ]
    serve: list[tuple[Operation, ...]] = [
        (
            *(Receive(chunk, rank, reduce=True) for rank in range(workers)),
            *(Send(chunk, rank) for rank in range(workers)),
        )
        for chunk in range(servers)
    ]
    return Plan(
        system="ps",
        hosts=job.workers + job.servers,
        workers=workers,
        chunks=servers,
        programs=(*(tuple(push_pull) for _ in range(workers)), *serve),
        partition=PARTITION,
        credit=CREDIT,
    )


SYSTEM = System(
    name="ps",
    title="PS",
    colour="#7f7f7f",
    marker="s",
    citation="Li et al., Scaling Distributed Machine Learning with the Parameter Server, "
    "OSDI 2014; Jiang et al., A Unified Architecture for Accelerating Distributed DNN Training "
    "in Heterogeneous GPU/CPU Clusters (BytePS), OSDI 2020",
    published=(
        "Workers push gradients, servers sum, workers pull the sum (gradients, not parameters).",
        "Tensors are cut into partitions of at most 4 MB, so that push and pull overlap (BytePS).",
        "A credit bounds the partitions that a worker has in flight (BytePS); here it is 4.",
    ),
    reading=(
        "With several servers, each holds an equal share of every partition.",
        "Servers sum whole partitions, in rank order.",
    ),
    servers=(1, 64),
    baseline=1,
    reference=True,
    carries=True,
    plan=plan,
)
