"""GRID: each worker's gradients are routed to the switch where summing helps most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from testbed.experiment.findings import shown
from testbed.plan.program import Plan, SwitchAllReduce
from testbed.plan.trees import Tree
from testbed.protocols.atp.protocol import PROTOCOL as ATP
from testbed.systems import ps
from testbed.systems.gradient_routing.options import Drawn
from testbed.systems.gradient_routing.ways import (
    MOST_WAYS,
    Way,
    candidates,
    detours,
    past_switches,
    to_switch,
)
from testbed.systems.racks import by_rack, check_apart
from testbed.systems.system import Assignment, System
from testbed.topology.fabric import Fabric
from testbed.topology.paths import EvenPaths, Flow, path, spread
from testbed.units import RATE_PATTERN, format_rate, parse_rate

if TYPE_CHECKING:
    from testbed.systems.gradient_routing.problem import Routing

FINEST = 1000
"""Shares of a bucket are multiples of 1/FINEST."""


def route(job: Assignment, fabric: Fabric) -> Routing:
    """The routing that the job's strategy finds. Raises ValueError if it misses the rate asked
    for."""
    # numpy and scipy are slow to import, and only plans of this system need them.
    from testbed.systems.gradient_routing import solvers
    from testbed.systems.gradient_routing.problem import Problem

    options = SYSTEM.settle({}) | dict(job.options)
    if len(job.servers) != 1:
        raise ValueError(f"servers: found {len(job.servers)}, wanted exactly one for grid")
    (server,) = job.servers
    check_apart([server], job.workers)
    racks = by_rack(job.workers, fabric)
    switches = candidates(fabric, racks, len(job.workers))
    paths = EvenPaths(fabric)
    problem = Problem(
        fabric,
        job.workers,
        server,
        {
            tor: _ways(fabric, paths, tor, server, options["strategy"], switches[tor])
            for tor in racks
        },
        options["links"] == "bind",
    )
    solver = options["solver"]
    if options["strategy"] == "nearest":
        found = solvers.greedy(problem)
    elif solver == "milp":
        found = solvers.exact(problem)
    else:
        seed = job.seed if options["seed"] is None else options["seed"]
        found = (
            solvers.searched(problem, seed)
            if solver == "search"
            else solvers.rounded(problem, seed, options["draws"])
        )
    wanted = options["rate"]
    if wanted is not None and found.rate < parse_rate(wanted):
        raise ValueError(
            f"grid: no feasible rate: found at most {format_rate(found.rate)} for each of "
            f"{len(job.workers)} workers, wanted {wanted}; lower the option rate, or raise links, "
            "fabric.capacity or the number of INA switches"
        )
    return found


def _ways(
    fabric: Fabric,
    paths: EvenPaths,
    tor: str,
    server: str,
    strategy: str,
    switches: Sequence[str],
) -> list[Way]:
    """The ways open to the workers of ``tor``; the first one bypasses all switches."""
    past = past_switches(paths, tor, server)
    if strategy == "none":
        return [past, *detours(fabric, tor, server)]
    if strategy == "nearest":
        on_the_way = path(fabric, tor, server)
        switches = [node for node in on_the_way if node in fabric.ina][:1]
    return [past, *(to_switch(paths, tor, switch) for switch in switches)]


def plan(job: Assignment, fabric: Fabric) -> Plan:
    """A tree for each part of the gradients; one, unless workers split theirs."""
    routing = route(job, fabric)
    if (SYSTEM.settle({}) | dict(job.options))["strategy"] == "none":
        return _by_server(job, fabric, routing)
    chunks = _chunks(routing)
    (server,) = job.servers
    trees = tuple(tree(job.workers, server, switches, len(job.workers)) for _, switches in chunks)
    shares = tuple(share for share, _ in chunks)
    return Plan(
        system="grid",
        hosts=job.workers + job.servers,
        workers=len(job.workers),
        chunks=len(chunks),
        programs=(tuple(SwitchAllReduce(c, c) for c in range(len(chunks))),)
        * (len(job.workers) + 1),
        trees=trees,
        shares=shares,
        routes=spread(fabric, streams(trees, shares)),
    )


def streams(trees: Sequence[Tree], shares: Sequence[Fraction]) -> dict[Flow, float]:
    """The part of a gradient that each edge of the trees carries, in either direction."""
    streams: dict[Flow, float] = {}
    for tree, share in zip(trees, shares, strict=True):
        for edge in tree.parent.items():
            for flow in (edge, edge[::-1]):
                streams[flow] = streams.get(flow, 0.0) + float(share)
    return streams


def _by_server(job: Assignment, fabric: Fabric, routing: Routing) -> Plan:
    """The plan without aggregation: a parameter server's, with flows on the chosen ways."""
    (server,) = job.servers
    routes: dict[Flow, tuple[str, ...]] = {}
    for worker, way in zip(job.workers, routing.ways, strict=True):
        if way.route is not None:
            routes[worker, server] = (worker, *way.route)
            routes[server, worker] = routes[worker, server][::-1]
    flows = {flow: 1.0 for worker in job.workers for flow in ((worker, server), (server, worker))}
    return replace(ps.served(job), system="grid", routes=spread(fabric, flows, routes))


def _chunks(routing: Routing) -> list[tuple[Fraction, tuple[str | None, ...]]]:
    """Parts of a bucket, each with the switch that sums it for each worker (None: the server).

    A worker that splits its gradient sends the first part to its switch; the rest bypasses the
    switch.
    """
    parts = {switch: round(part * FINEST) for switch, part in routing.summed.items()}
    cuts = sorted({0, FINEST, *parts.values()})
    return [
        (
            Fraction(end - start, FINEST),
            tuple(
                way.switch if way.switch is not None and parts[way.switch] >= end else None
                for way in routing.ways
            ),
        )
        for start, end in pairwise(cuts)
    ]


def tree(
    workers: Sequence[str], server: str, switches: Sequence[str | None], root_rank: int
) -> Tree:
    """The tree to ``server``, with the switch that sums for each worker, if any."""
    parent: dict[str, str] = {}
    for worker, switch in zip(workers, switches, strict=True):
        parent[worker] = switch or server
        if switch is not None:
            parent[switch] = server
    ranks = {worker: rank for rank, worker in enumerate(workers)}
    return Tree(server, ranks, parent, ATP, root_rank=root_rank)


def _rate(value: object) -> object:
    try:
        sound = value is None or (isinstance(value, str) and parse_rate(value) > 0)
    except ValueError:
        sound = False
    if not sound:
        wanted = "the rate that each worker must reach"
        raise ValueError(f"found {shown(value)}, wanted {wanted}; write for example 3Gbit")
    return value


class GridOptions(Drawn):
    """How gradients are routed."""

    strategy: Literal["grid", "nearest", "none"] = Field(
        default="grid",
        description="which switches sum, one of grid (the paper's), nearest (the first on the way,"
        " as ATP in the paper's model) or none (flows are moved off busy links, as Geryon does)",
        examples=["grid"],
    )
    links: Literal["bind", "suffice"] = Field(
        default="bind",
        description="whether links limit the rates too, one of bind or suffice (the paper's)",
        examples=["bind"],
    )
    solver: Literal["rounding", "search", "milp"] = Field(
        default="rounding",
        description="how the problem is solved, one of rounding (the paper's), search (draws,"
        " improved switch by switch) or milp (exactly)",
        examples=["rounding"],
    )
    rate: Annotated[
        str | None,
        BeforeValidator(_rate),
        WithJsonSchema({"type": "string", "pattern": RATE_PATTERN}),
    ] = Field(
        default=None,
        description="the rate that each worker must reach, such as 3Gbit",
        examples=["3Gbit"],
    )

    def draws_anew(self) -> bool:
        """Whether a solver draws routes, with each repeat's own seed."""
        return self.strategy == "grid" and self.solver != "milp" and super().draws_anew()


SYSTEM = System(
    name="grid",
    title="GRID",
    colour="#2ca02c",
    marker="*",
    citation="Fang et al., GRID: Gradient Routing With In-Network Aggregation for Distributed "
    "Training, IEEE/ACM ToN 31(5), 2023",
    published=(
        "Each worker's gradients are summed in at most one switch, anywhere in the fabric, or at "
        "the server; the lowest rate of all workers is made as high as the switches' processing "
        "and the server's link allow.",
        "The problem is relaxed to a linear programme; each worker's node is drawn in proportion "
        "to its rates (randomised rounding).",
        "Baselines: no aggregation, with flows moved off busy links (Geryon); and the first "
        "programmable switch on the way, as far as its capacity goes (ATP, in the paper's model).",
    ),
    reading=(
        "Links are constraints too, in both directions, because sums return (option links: bind); "
        "the paper assumes that they suffice. The problem counts equally short paths as shared "
        "evenly.",
        "Each stream then takes one of its equally short paths, as a controller would install it: "
        "flow by flow the one that adds least to the busiest links.",
        "A switch that would sum for one worker only is bypassed.",
        "The paper draws once; here the best of 32 draws counts (option draws), by seeds of each "
        "repeat. A rate respects all limits; the paper lets rounding exceed them by a bounded "
        "factor.",
        "Beside rounding, the problem can be solved exactly (solver: milp), or by draws from which "
        "switches are removed one by one, because each switch in use costs a stream to the server "
        "(solver: search).",
        f"Where racks have more than {MOST_WAYS} ways together, only some switches are candidates, "
        "twice the square root of the number of workers, and for each rack the nearest of them.",
        "A rate is at most that of the slowest worker's or the server's link.",
        "Switches use slots as ATP does. If a slot is taken, the packet goes on to the server, as "
        "in the released code; the paper drops it and notifies the worker.",
        "If the first switch on the way cannot add everything, the rest of each gradient goes past "
        "it.",
        "Each switch in use costs the server a stream, which the relaxation does not see: it "
        "spreads workers over all switches, so rounding's rate may fall where more of them have "
        "INA. The paper lets it exceed the server's rate instead; milp and search are not "
        "affected.",
        "Where no switch sums, workers send to the server as they would to a switch, with the same "
        "windows. Only strategy: none is a parameter server over TCP, as Geryon's is.",
    ),
    servers=(1, 1),
    aggregates=True,
    carries=True,
    plan=plan,
    options=GridOptions,
)
