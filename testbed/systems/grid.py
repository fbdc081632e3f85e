"""GRID: each worker's gradients are routed to the switch where summing them helps most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

from testbed.plan.program import Plan, SwitchAllReduce
from testbed.plan.trees import Style, Tree
from testbed.systems import ps
from testbed.systems.gradient_routing import EXACT_CHOICES, Choice, Problem, Routing, choices, ways
from testbed.systems.system import WINDOW, Assignment, Option, System, one_of
from testbed.topology.fabric import Fabric
from testbed.units import format_rate, parse_rate

FINEST = 1000
"""Shares of a bucket are multiples of one part in so many."""


def route(job: Assignment, fabric: Fabric) -> Routing:
    """The routing that the job's strategy finds. ValueError if it falls short of its rate."""
    options = SYSTEM.settle({}) | dict(job.options)
    if len(job.servers) != 1:
        raise ValueError(f"grid needs exactly one server, got {len(job.servers)}")
    (server,) = job.servers
    if server in job.workers:
        raise ValueError(f"the server {server} is a worker too; a tree's root needs its own host")
    switches = [switch for switch in fabric.switches if switch in fabric.ina]
    if options["strategy"] == "none":
        open_to = [ways(fabric, worker, server) for worker in job.workers]
    elif options["strategy"] == "nearest":
        open_to = [_nearest(fabric, worker, server) for worker in job.workers]
    else:
        open_to = [choices(fabric, worker, server, switches) for worker in job.workers]
    problem = Problem(fabric, job.workers, server, open_to, options["links"] == "bind")
    exact = options["solver"] == "milp" or (
        options["solver"] == "auto" and sum(map(len, open_to)) <= EXACT_CHOICES
    )
    if options["strategy"] == "nearest":
        found = problem.split()
    else:
        found = problem.exact() if exact else problem.rounded(options["seed"])
    wanted = options["rate"]
    if found.rate <= 0 or (wanted is not None and found.rate < parse_rate(wanted)):
        raise ValueError(
            f"grid: no feasible rate: found at most {format_rate(found.rate)} for each of "
            f"{len(job.workers)} workers, wanted {wanted or 'more than nothing'}; lower the option "
            "rate, or raise links, fabric.capacity or the number of INA switches"
        )
    return found


def _nearest(fabric: Fabric, worker: str, server: str) -> list[Choice]:
    """The first switch with INA on the way to the server, and the server for what it cannot add."""
    node, tors = fabric.tor_of(worker), fabric.tor_of(server)
    while node not in fabric.ina and node != tors:
        node = fabric.next_hops(node, server)[0]
    return choices(fabric, worker, server, [node] if node in fabric.ina else [])


def plan(job: Assignment, fabric: Fabric) -> Plan:
    """A tree for each way in which parts of the gradients go; one, unless workers split theirs."""
    routing = route(job, fabric)
    if all(choice.switch is None for own in routing.shares for choice in own):
        return _by_server(job, fabric, routing)
    chunks = _chunks(routing)
    (server,) = job.servers
    return Plan(
        system="grid",
        hosts=job.workers + job.servers,
        workers=len(job.workers),
        chunks=len(chunks),
        programs=(tuple(SwitchAllReduce(c, c) for c in range(len(chunks))),)
        * (len(job.workers) + 1),
        trees=tuple(_tree(job.workers, server, switches) for _, switches in chunks),
        shares=tuple(share for share, _ in chunks),
    )


def _by_server(job: Assignment, fabric: Fabric, routing: Routing) -> Plan:
    """No switch sums: a parameter server, with flows on the ways that were chosen for them."""
    (server,) = job.servers
    pins: dict[tuple[str, str], str] = {}
    for worker, own in zip(job.workers, routing.shares, strict=True):
        for choice in own:
            if choice.via is not None:
                # The result comes back the same way.
                pins[worker, server] = choice.via
                pins[server, worker] = _last_before(fabric, choice.via, server)
    return replace(ps.plan(job, fabric), system="grid", pins=pins)


def _last_before(fabric: Fabric, node: str, server: str) -> str:
    """The switch through which a flow from ``node`` reaches the server's ToR."""
    while (hop := fabric.next_hops(node, server)[0]) != fabric.tor_of(server):
        node = hop
    return node


def _chunks(routing: Routing) -> list[tuple[Fraction, tuple[str | None, ...]]]:
    """Parts of a bucket, each with the switch that sums it for each worker (None: the server).

    A worker that splits sends the first part of its gradient to its switch and the rest past it.
    """
    summed = [
        (choice.switch, round(share * FINEST))
        for own in routing.shares
        for choice, share in [max(own.items(), key=lambda each: each[0].switch is not None)]
    ]
    cuts = sorted({0, FINEST, *(share for switch, share in summed if switch is not None)})
    return [
        (
            Fraction(end - start, FINEST),
            tuple(switch if share >= end else None for switch, share in summed),
        )
        for start, end in pairwise(cuts)
    ]


def _tree(workers: Sequence[str], server: str, switches: Sequence[str | None]) -> Tree:
    parent: dict[str, str] = {}
    for worker, switch in zip(workers, switches, strict=True):
        # A switch with a single child would sum nothing.
        if switch is None or switches.count(switch) == 1:
            parent[worker] = server
        else:
            parent[worker] = switch
            parent[switch] = server
    ranks = {worker: rank for rank, worker in enumerate(workers)}
    return Tree(server, ranks, parent, Style.ATP, root_rank=len(workers))


def _is_rate(value: object) -> bool:
    try:
        return isinstance(value, str) and parse_rate(value) > 0
    except ValueError:
        return False


SYSTEM = System(
    name="grid",
    title="GRID",
    colour="#2ca02c",
    marker="*",
    citation="Fang et al., GRID: Gradient Routing With In-Network Aggregation for Distributed "
    "Training, IEEE/ACM ToN 31(5), 2023",
    published=(
        "Each worker's gradients are summed in at most one switch, anywhere in the fabric, or at "
        "the server; the least rate of all workers is made as high as switches' processing and "
        "the server's link allow.",
        "The problem is relaxed to a linear programme; each worker's node is drawn in proportion "
        "to its rates (randomised rounding).",
        "Baselines: no aggregation with flows moved off busy links (Geryon), and the first "
        "programmable switch on the way as far as it has capacity (ATP, in the paper's model).",
    ),
    reading=(
        "Links are constraints too (option links: bind); the paper assumes that they suffice. "
        "Flows take shortest paths and share ECMP sets evenly.",
        f"Up to {EXACT_CHOICES} choices of all workers together the problem is solved exactly; "
        "beyond, the best of several draws is taken, and switches are given up as long as that "
        "raises the rate: each one in use costs a stream to the server.",
        "A rate is at most that of the slowest worker's or the server's link.",
        "Switches use slots as ATP does. A taken slot sends the packet on to the server, as in "
        "the released code; the paper drops it and tells the worker.",
        "Where the first switch on the way cannot add all, the rest of each gradient goes past it.",
        "Without any INA switch GRID is a parameter server.",
    ),
    servers=(1, 1),
    plan=plan,
    steps=lambda plan: 1 if plan.trees else 2,
    options={
        "strategy": one_of("grid", "nearest", "none"),
        "links": one_of("bind", "suffice"),
        "solver": one_of("auto", "milp", "rounding"),
        "seed": Option(
            1,
            "a whole number of at least 0",
            lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= 0,
        ),
        "rate": Option(None, "the rate that each worker must reach, such as 3Gbit", _is_rate),
        "window": WINDOW,
    },
)
