"""InArt: the model is split over several servers, and each part's routes are chosen with it."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from testbed.plan.program import Operation, Plan, SwitchAllReduce
from testbed.systems.gradient_routing.options import Drawn
from testbed.systems.gradient_routing.ways import MOST_WAYS, candidates, past_switches, to_switch
from testbed.systems.grid import FINEST, streams, tree
from testbed.systems.racks import by_rack, check_apart
from testbed.systems.system import Assignment, System
from testbed.topology.fabric import Fabric
from testbed.topology.paths import EvenPaths, spread

if TYPE_CHECKING:
    from testbed.systems.gradient_routing.split import Split


def route(job: Assignment, fabric: Fabric) -> Split:
    """Shares and routes. Raises ValueError if a server's host is also a worker's."""
    # numpy and scipy are slow to import, and few plans need them.
    from testbed.systems.gradient_routing import split
    from testbed.systems.gradient_routing.problem import Problem

    options = SYSTEM.settle({}) | dict(job.options)
    if not job.servers:
        raise ValueError("inart needs at least one server")
    check_apart(job.servers, job.workers)
    racks = by_rack(job.workers, fabric)
    most_ways = max(2 * len(racks), 4 * MOST_WAYS // len(job.servers))
    switches = candidates(fabric, racks, len(job.workers), most_ways)
    paths = EvenPaths(fabric)
    problems = [
        Problem(
            fabric,
            job.workers,
            server,
            {
                tor: [
                    past_switches(paths, tor, server),
                    *(to_switch(paths, tor, switch) for switch in switches[tor]),
                ]
                for tor in racks
            },
        )
        for server in job.servers
    ]
    seed = job.seed if options["seed"] is None else options["seed"]
    return split.rounded(problems, seed, options["draws"], options["split"] == "equal")


def plan(job: Assignment, fabric: Fabric) -> Plan:
    """A chunk and a tree for each server that has a part."""
    found = route(job, fabric)
    shares = _whole(found.shares)
    workers = len(job.workers)
    parts = [number for number, share in enumerate(shares) if share]
    trees = tuple(
        tree(
            job.workers,
            job.servers[number],
            [way.switch for way in found.routings[number].ways],
            workers + number,
        )
        for number in parts
    )
    kept = tuple(shares[number] for number in parts)
    everyone: tuple[Operation, ...] = tuple(
        SwitchAllReduce(chunk, chunk) for chunk in range(len(parts))
    )
    serve: list[tuple[Operation, ...]] = [() for _ in job.servers]
    for chunk, number in enumerate(parts):
        serve[number] = (SwitchAllReduce(chunk, chunk),)
    return Plan(
        system="inart",
        hosts=job.workers + job.servers,
        workers=workers,
        chunks=len(parts),
        programs=(*(everyone for _ in range(workers)), *serve),
        trees=trees,
        shares=kept,
        routes=spread(fabric, streams(trees, kept)),
    )


def _whole(shares: Sequence[float]) -> list[Fraction]:
    """The shares as multiples of 1/FINEST that add up to 1."""
    parts = [round(share * FINEST) for share in shares]
    parts[parts.index(max(parts))] += FINEST - sum(parts)
    return [Fraction(part, FINEST) for part in parts]


class InArtOptions(Drawn):
    """How the model is split and routed."""

    split: Literal["best", "equal"] = Field(
        default="best",
        description="the servers' parts of the model, one of best (chosen with the"
        " routes) or equal",
        examples=["best"],
    )


SYSTEM = System(
    name="inart",
    title="InArt",
    colour="#b8860b",
    marker="H",
    citation="Liu et al., InArt: In-Network Aggregation with Route Selection for Accelerating "
    "Distributed Training, WWW 2024, doi 10.1145/3589334.3645394",
    published=(
        "The model is split over several parameter servers, and for each part every worker's "
        "gradients take a route on which at most one switch sums them.",
        "The split comes from Lagrange multipliers; routes are selected by randomised rounding. "
        "Limits are the links, the servers' links and the rate at which switches aggregate.",
    ),
    reading=(
        "The paper was read; what follows is what it leaves open, or what this testbed needs.",
        "The split and the routes are relaxed together, to one linear programme. For each draw of "
        "routes the shares are the optimum of another. The best of 32 draws counts or, if that is "
        "faster, the routes on which every rack sends to its nearest switch.",
        "Links, switches and flows are those of GRID here: sums return on the same ways, equally "
        "short paths share evenly in the programme, and each stream then takes one of them.",
        "Shares are whole thousandths; a server may be left without a part.",
        "Switches use slots as ATP does, and a switch that would sum for one worker is bypassed.",
        "Where no switch sums, workers send to the servers as they would to a switch.",
        f"With k servers, racks have at most about {4 * MOST_WAYS}/k ways together for each "
        "server: of more switches some are candidates, and for each rack the nearest of them.",
    ),
    servers=(1, 64),
    aggregates=True,
    carries=True,
    plan=plan,
    options=InArtOptions,
)
