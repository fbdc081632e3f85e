"""Parameter server: every worker pushes to the servers, which send the sums back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, Literal

from pydantic import Field

from testbed.experiment.options import Options
from testbed.plan.program import Operation, Pipelining, Plan, Receive, Send
from testbed.systems.system import Assignment, System
from testbed.topology.fabric import Fabric


def plan(job: Assignment, fabric: Fabric) -> Plan:
    """Workers push their chunks to servers: the job's own, workers' hosts, or both."""
    options = SYSTEM.settle({}) | dict(job.options)
    return replace(_placed(job, options["servers"]), pipelining=pipelining(options))


def pipelining(options: Mapping[str, Any]) -> Pipelining:
    """That of a job's ``options``, as far as they are given, by `Pieces`."""
    settled = Pieces().model_dump() | dict(options)
    return Pipelining(settled["partition"], settled["credit"] or None)


def _placed(job: Assignment, asked: str) -> Plan:
    workers, spare = len(job.workers), len(job.servers)
    # A job that places servers on workers' hosts wants exactly these servers.
    if asked == "dedicated" or not set(job.workers).isdisjoint(job.servers):
        return served(job)
    if asked == "colocated" or spare == 0:
        return served(replace(job, servers=job.workers))
    if spare >= workers:
        return served(job)
    whole = workers**2 + spare * workers - 2 * spare
    shares = [Fraction(2 * (workers - 1), whole)] * spare
    shares += [Fraction(workers - spare, whole)] * workers
    return served(replace(job, servers=job.servers + job.workers), shares)


def served(job: Assignment, shares: Sequence[Fraction] | None = None) -> Plan:
    """One chunk per server of ``job``; servers sum in rank order.

    ``shares`` are the servers' parts of every bucket; None means equal parts. ValueError without a
    server.
    """
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
        pipelining=pipelining({}),
        shares=None if shares is None else tuple(shares),
    )


class Pieces(Options):
    """How tensors are cut into pieces, and how many a worker sends at once."""

    partition: int = Field(
        default=4_000_000,
        ge=4,
        description="the bytes of the largest piece of a tensor that is pushed on its own, a whole"
        " number of at least 4; the fastest is one with which the pieces in flight of a worker fit"
        " into a port's queue",
        examples=[128_000],
    )
    credit: int = Field(
        default=4,
        ge=0,
        description="the pieces that a worker has in flight at most, a whole number of at least 0;"
        " 0 for any number",
        examples=[4],
    )


class PsOptions(Pieces):
    """Where gradients are summed."""

    servers: Literal["best", "dedicated", "colocated"] = Field(
        default="best",
        description="which hosts serve, one of best (the job's servers and all workers' hosts, with"
        " BytePS's shares), dedicated (the job's servers only; a single one is the incast) or"
        " colocated (workers' hosts only)",
        examples=["best"],
    )


SYSTEM = System(
    name="ps",
    title="PS",
    colour="#7f7f7f",
    marker="s",
    citation="Li et al., Scaling Distributed Machine Learning with the Parameter Server, OSDI 2014",
    published=("Workers push gradients to servers, and pull what the servers make of them.",),
    reading=(
        "Servers sum, and workers pull the sum, as from BytePS's servers. Where servers update "
        "the parameters themselves, workers pull these: as many bytes.",
        "The baseline is the best of its kind, so all machines serve, with BytePS's shares: of n "
        "machines with workers and k < n without, each of the k holds 2(n-1)/D of every tensor, "
        "each of the n holds (n-k)/D, where D = n^2+kn-2k.",
        "Tensors are cut into partitions (option partition, 4 MB), of which a worker has some in "
        "flight (option credit, 4), so that push and pull overlap. Over TCP, what all workers have "
        "in flight to a server must not overflow its port's queue: ByteScheduler tunes both "
        "values. The system byteps has BytePS's own rules for this.",
        "With as many spare machines as workers, or more, only they serve, with equal shares; so "
        "do the job's servers with servers: dedicated, workers' hosts with servers: colocated, and "
        "servers that the job places on workers' hosts.",
        "Servers sum whole partitions, in rank order.",
    ),
    servers=(1, 64),
    baseline=1,
    reference=True,
    carries=True,
    plan=plan,
    options=PsOptions,
)
