"""ESA: ATP whose slots go to the packets with the highest priority, not to those that come
first."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from testbed import wire
from testbed.experiment.findings import shown
from testbed.plan.program import Plan
from testbed.protocols.esa.protocol import PROTOCOL as ESA
from testbed.systems import atp
from testbed.systems.system import Assignment, System, WithWindow
from testbed.topology.fabric import Fabric


def plan(job: Assignment, fabric: Fabric) -> Plan:
    """ATP's trees."""
    return atp.best_effort(job, fabric, "esa", ESA)


def _priority(value: object) -> str | int:
    if value in ("remaining", "layer") or (type(value) is int and 1 <= value <= wire.MOST_PRIORITY):
        return value
    raise ValueError(
        f"found {shown(value)}, wanted remaining, layer, or a whole number from 1 to"
        f" {wire.MOST_PRIORITY}; write for example priority: layer"
    )


class EsaOptions(WithWindow):
    """What a packet's priority depends on."""

    priority: Annotated[
        Literal["remaining", "layer"] | int,
        BeforeValidator(_priority),
        WithJsonSchema(
            {
                "anyOf": [
                    {"enum": ["remaining", "layer"]},
                    {"type": "integer", "minimum": 1, "maximum": wire.MOST_PRIORITY},
                ]
            }
        ),
    ] = Field(
        default="remaining",
        description="the priority of packets, one of remaining (the fewer bytes the job has left in"
        " the iteration, the higher), layer (the earlier the next forward pass needs them, the"
        f" higher) or a whole number from 1 to {wire.MOST_PRIORITY}, the highest, for all packets"
        " of the job",
        examples=["layer"],
    )

    def ranks_jobs(self) -> tuple[str, ...]:
        return ("priority",) if "priority" in self.model_fields_set else ()


SYSTEM = System(
    name="esa",
    title="ESA",
    colour="#e76f51",
    marker="4",
    citation="Wang et al., Efficient Data-Plane Memory Scheduling for In-Network Aggregation, "
    "arXiv 2201.06398",
    published=(
        "Switches give slots to packets by priority and preemptively, instead of first come, first "
        "served, so that no slot idles until a job frees it.",
        "Priorities shorten the mean completion time of jobs that share switches.",
    ),
    reading=(
        "Only the abstract was at hand. Trees, servers, hosts and packets are ATP's, with three "
        "bits of priority.",
        "By default the priority of a packet falls with the logarithm of the bytes that its job "
        "has left to sum in the iteration: 7 below 1 MiB, one less for each doubling, at least 1.",
        "A sum that loses its slot goes to its own server, which adds the parts of a fragment.",
        "A packet that finds a slot taken by one of its own or a higher priority goes to the "
        "server, and the slot keeps its priority. ESA may lower it then, so that no sum holds a "
        "slot for long; that rule was known to us from memory only, and is left out.",
        "The flow simulator has no slots, so ESA is ATP there.",
    ),
    servers=(1, 64),
    aggregates=True,
    carries=True,
    plan=plan,
    options=EsaOptions,
)
