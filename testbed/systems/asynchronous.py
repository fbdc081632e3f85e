"""Programs of updates, which parameter-server systems without an all-reduce have in common."""

from __future__ import annotations

from testbed.plan.program import Consistency, Plan, Update
from testbed.systems.ps import pipelining
from testbed.systems.system import Assignment

READING = (
    "Servers hold parameters and add unmodified gradients to them, in int32 with wrap-around. An "
    "answer says how many updates of each worker it contains, and is checked bit by bit.",
    "Partitions, credit and sharding over several servers are those of ps by default; each "
    "partition of each server's share is pushed, added and pulled on its own.",
    "Worker r of N starts r/N of an iteration late, so the steady state with evenly spaced workers "
    "is measured. Throughput is that of all workers together while all are at work.",
)


def plan(job: Assignment, system: str, consistency: Consistency) -> Plan:
    """One chunk per server, updated by every worker. Servers only respond."""
    workers, servers = len(job.workers), len(job.servers)
    if servers == 0:
        raise ValueError(f"{system} needs at least one server")
    updates = tuple(Update(chunk, workers + chunk) for chunk in range(servers))
    return Plan(
        system=system,
        hosts=job.workers + job.servers,
        workers=workers,
        chunks=servers,
        programs=(*(updates for _ in range(workers)), *(() for _ in range(servers))),
        pipelining=pipelining(job.options),
        consistency=consistency,
    )
