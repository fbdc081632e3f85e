"""BytePS: all machines sum, those without workers more than others; partitions go by layer
priority."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from pydantic import Field

from testbed.plan.program import Pipelining, Plan
from testbed.systems import ps
from testbed.systems.system import Assignment, System
from testbed.topology.fabric import Fabric


def plan(job: Assignment, fabric: Fabric) -> Plan:
    """The parameter server's plan, with BytePS's partitions, order and credit."""
    options = SYSTEM.settle({}) | dict(job.options)
    return replace(
        ps.plan(replace(job, options=options), fabric),
        system="byteps",
        pipelining=Pipelining(options["partition"], options["credit"] or None, options["order"]),
    )


class BytePsOptions(ps.PsOptions):
    """Where gradients are summed, and how pieces of them follow one another."""

    partition: int = Field(
        default=4_096_000,
        ge=4,
        description="the bytes of the largest piece of a tensor that is pushed on its own, a whole"
        " number of at least 4",
        examples=[1_000_000],
    )
    order: Literal["priority", "backward"] = Field(
        default="priority",
        description="which of the pieces that are ready goes first, one of priority (that which the"
        " next forward pass needs first), backward (that which was ready first)",
        examples=["priority"],
    )


SYSTEM = System(
    name="byteps",
    title="BytePS",
    colour="#3f6f5f",
    marker="8",
    citation="Jiang et al., A Unified Architecture for Accelerating Distributed DNN Training in "
    "Heterogeneous GPU/CPU Clusters, OSDI 2020; Peng et al., A Generic Communication Scheduler for "
    "Distributed DNN Training Acceleration (ByteScheduler), SOSP 2019",
    published=(
        "Of n machines with workers and k without, each of the k sums 2(n-1)/D of every tensor and "
        "each of the n sums (n-k)/D, where D = n^2+kn-2k. An iteration's traffic takes "
        "2n(n-1)M/(D B): a ring's time with k = 0, M/B with k = n.",
        "Tensors are cut into partitions of at most 4,096,000 bytes (the code's default): "
        "a part is pulled while the next one is pushed.",
        "A server answers a pull once all workers have pushed; workers pull gradients.",
        "Ready partitions are sent by layer priority. A credit bounds those in flight, to four in "
        "ByteScheduler's default.",
    ),
    reading=(
        "Every partition is cut into the machines' shares. The released code hashes whole "
        "partitions to machines, which comes to these shares on average.",
        "With as many spare machines as workers, or more, only they sum, in equal shares. The "
        "job's servers are the spare machines.",
        "The credit bounds partitions on the network, as ByteScheduler's does. BytePS's released "
        "code has none by default (here credit: 0), and otherwise bounds the reduction within a "
        "machine, which a worker here does not have. Without a credit, all that is ready is pushed "
        "at once, and what is pulled waits for the slowest of many TCP connections.",
        "Priority orders what is pushed. On a connection, what was pushed first arrives first.",
    ),
    servers=(0, 64),
    carries=True,
    plan=plan,
    options=BytePsOptions,
)
