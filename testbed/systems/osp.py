"""OSP: important tensors are synchronised at once, the others during the next compute."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PlainValidator, WithJsonSchema

from testbed import systems
from testbed.experiment.fields import is_number
from testbed.experiment.findings import shown, suggestion
from testbed.plan import cost as model
from testbed.plan.program import Plan
from testbed.systems.system import Assignment, System, WithWindow
from testbed.topology.fabric import Fabric
from testbed.units import format_size, format_time
from testbed.workload.trace import Trace

_FOR_CARRIER = ("window", "servers", "partition", "credit")
"""Options that are handed on to a carrier that has them, if they are set."""


def plan(job: Assignment, fabric: Fabric) -> Plan:
    """The carrier's plan, with the tensors that wait for the second stage marked."""
    options = SYSTEM.settle({}) | dict(job.options)
    if job.trace is None:
        raise ValueError("osp needs a trace: what it defers depends on sizes and compute")
    given = {name: options[name] for name in _FOR_CARRIER if options[name] is not None}
    carried = _carrier_plan(job, fabric, options["carrier"], given)
    pace = model.seconds_per_byte(carried, fabric)
    hidden = job.trace.compute_s / pace if pace else float(job.trace.bytes)
    bound = hidden / (1 + options["packet_loss"])
    asked = options["deferred"]
    if asked != "auto" and asked * job.trace.bytes > bound:
        raise ValueError(
            f"osp: option deferred: found {asked}, wanted at most {bound / job.trace.bytes:.3g}: "
            f"compute of {format_time(job.trace.compute_s)} hides {format_size(bound)} of "
            f"{format_size(job.trace.bytes)} over {options['carrier']}; lower it or take auto"
        )
    budget = bound * (1 - options["training_loss"])
    if asked != "auto":
        budget = asked * job.trace.bytes
    order = by_importance(job.trace, options["importance"], options["seed"])
    deferred = second_stage(job.trace, order, budget)
    if not deferred:
        fix = "take faster links or the carrier alone"
        if asked != "auto" or options["training_loss"]:
            fix = "raise deferred" if asked != "auto" else "lower training_loss"
        raise ValueError(
            f"osp has nothing to defer: {format_size(budget)} may wait for the second stage over "
            f"{options['carrier']}, and no tensor of {job.trace.name} but the most important is "
            f"that small; {fix}"
        )
    return replace(carried, system="osp", deferred=deferred)


def by_importance(trace: Trace, importance: str, seed: int = 1) -> list[int]:
    """The tensors of ``trace``, by index, most important first: see ``SYSTEM.reading``."""
    order = list(range(len(trace.tensors)))
    if importance == "last":
        order.reverse()
    elif importance == "size":
        order.sort(key=lambda index: -trace.tensors[index].elements)
    elif importance == "pgp" or (importance == "auto" and "pgp" in trace.provenance):
        products = _pgp(trace)
        order.sort(key=lambda index: -products[index])
    elif importance == "random":
        random.Random(seed).shuffle(order)
    return order


def _pgp(trace: Trace) -> list[float]:
    """The mean product of parameter and gradient of each tensor's values, as recorded."""
    products = [float(each) for each in trace.provenance.get("pgp", "").split()]
    if len(products) != len(trace.tensors):
        raise ValueError(
            f"osp: option importance: found pgp for {trace.name}, which has no product of parameter"
            " and gradient for each tensor; wanted a shipped model, or a trace made from a training"
            " script; take first"
        )
    return [each / t.elements for each, t in zip(products, trace.tensors, strict=True)]


def second_stage(trace: Trace, order: list[int], budget: float) -> frozenset[int]:
    """The least important tensors of ``order`` that together fit into ``budget`` bytes.

    A tensor that does not fit is skipped. The most important one is never deferred.
    """
    chosen = []
    for index in reversed(order[1:]):
        size = trace.tensors[index].elements * trace.dtype_bytes
        if size <= budget:
            chosen.append(index)
            budget -= size
    return frozenset(chosen)


def _carrier_plan(job: Assignment, fabric: Fabric, name: str, given: Mapping[str, Any]) -> Plan:
    carrier = systems.registry[name]
    taken = given.keys() & carrier.options.model_fields.keys()
    options = carrier.settle({option: given[option] for option in taken})
    servers = job.servers if carrier.servers[1] else ()
    return carrier.plan(replace(job, servers=servers, options=options), fabric)


def _carriers() -> list[str]:
    # Looked up late, because the registry holds this system, too.
    return [name for name, system in systems.registry.items() if system.carries]


def _carrier(value: object) -> object:
    names = _carriers()
    if value not in names:
        fix = suggestion(value, names)
        raise ValueError(f"found {shown(value)}, wanted one of {', '.join(names)}; {fix}")
    return value


def _deferred(value: object) -> object:
    if value != "auto" and not (is_number(value) and 0 < value < 1):
        wanted = "auto, or a part of the gradient's bytes above 0 and below 1"
        raise ValueError(f"found {shown(value)}, wanted {wanted}; write for example 0.5")
    return value


class OspOptions(WithWindow):
    """Which tensors wait for the second stage, and which system carries both stages."""

    carrier: Annotated[str, BeforeValidator(_carrier)] = Field(
        default="ps",
        description="the system that sums in both stages",
        examples=["ps"],
        json_schema_extra=lambda schema: schema.update(enum=[*_carriers()]),
    )
    importance: Literal["auto", "pgp", "first", "last", "size", "random"] = Field(
        default="auto",
        description="which tensors matter most, one of pgp (product of parameter and gradient, as"
        " recorded with the workload), first (nearest to the input), last, size, random or auto"
        " (pgp if the workload has it, otherwise first)",
        examples=["pgp"],
    )
    deferred: Annotated[
        Literal["auto"] | float,
        PlainValidator(_deferred),
        WithJsonSchema(
            {
                "anyOf": [
                    {"const": "auto"},
                    {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
                ]
            }
        ),
    ] = Field(
        default="auto",
        description="auto, or a part of the gradient's bytes above 0 and below 1",
        examples=["auto"],
    )
    packet_loss: float = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="the share of packets that the network loses, by which the bound of what is"
        " deferred falls, a ratio of at least 0 and below 1",
        examples=[0.01],
    )
    training_loss: float = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="with deferred: auto, the training loss as a part of that of the first epoch, a"
        " ratio of at least 0 (the end of training, all of the bound) and below 1",
        examples=[0.5],
    )
    servers: Literal["dedicated", "best", "colocated"] = Field(
        default="dedicated",
        description="which hosts serve if the carrier is ps, one of dedicated, best or colocated",
        examples=["dedicated"],
    )
    partition: int | None = Field(
        default=None,
        ge=4,
        description="the bytes of the largest piece of a tensor that is pushed on its own if the"
        " carrier is ps or byteps, a whole number of at least 4; unset, the carrier's",
        examples=[128_000],
    )
    credit: int | None = Field(
        default=None,
        ge=0,
        description="the pieces that a worker has in flight at most if the carrier is ps or byteps,"
        " a whole number of at least 0; 0 for any number; unset, the carrier's",
        examples=[1],
    )
    seed: int = Field(
        default=1,
        ge=0,
        description="the seed of random importance, a whole number of at least 0",
        examples=[1],
    )

    def draws_anew(self) -> bool:
        """Whether the carrier's plan depends on the seed of each repeat."""
        return systems.registry[self.carrier].options().draws_anew()


SYSTEM = System(
    name="osp",
    title="OSP",
    colour="#17becf",
    marker="P",
    citation="Chen et al., OSP: Boosting Distributed Model Training with 2-stage Synchronization, "
    "ICPP 2023 (not the OSP of ICPP 2019)",
    published=(
        "Synchronisation has two stages, one of which overlaps with compute.",
        "A correction with local gradients (LGP) compensates for stale parameters.",
    ),
    reading=(
        "The paper's text was not available to us: all but the two stages and LGP is our reading. "
        "PGP, the bound U of what is deferred and its growth are from memory, not looked up.",
        "The second stage of an iteration begins with the next iteration and ends before it does. "
        "It goes first: the first stage of the next iteration queues behind it.",
        "The second stage takes at most the bytes that compute hides: its time over the carrier, "
        "alone on the fabric, is not longer than forward and backward, T. For N workers, one "
        "server of bandwidth b and a share l of packets lost that is the remembered bound, "
        "U = b*T/((1+l)*N) bytes; other carriers have their own time for a byte instead of N/b.",
        "U grows during training with (1 - loss/first loss). A job here is a moment of it, by "
        "default the end (option training_loss: 0), where all of U is deferred. The paper's upper "
        "limit, a part of the gradient, is not known and not applied.",
        "A tensor's importance is the mean magnitude of parameter times gradient (PGP) of its "
        "values: what is deferred then matters least for its bytes. By the sum, which may be what "
        "the paper takes, the largest tensors would be the most important ones.",
        "Most shipped workloads have PGP, recorded early in training (workloads/README.md), and a "
        "training script's at its initial parameters. Without it, a tensor is more important the "
        "nearer it is to the input (first), because the next forward pass needs it first. It can "
        "also be by the output (last), by size, or by a seeded draw.",
        "The least important tensors are deferred; a tensor that no longer fits is skipped; the "
        "most important one is never deferred.",
        "On the carrier ps the job's own servers serve, one by default (option servers).",
        "Any system that sums at a server or in switches can carry both stages.",
        "The choice of tensors is the same in every iteration.",
        "LGP changes parameters in the workers and costs no communication. A job that learns runs "
        "it: until a deferred sum arrives, a worker has made a step with its own gradient, which "
        "the sum then replaces. An EMA of it is not run.",
    ),
    servers=(1, 64),
    plan=plan,
    options=OspOptions,
)
