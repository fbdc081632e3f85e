"""TopoOpt: rings of several jumps at once, on circuits that were chosen for them."""

from __future__ import annotations

from pydantic import Field

from testbed.experiment.options import Options
from testbed.plan.program import Plan
from testbed.plan.stages import Ring, Stages, Turn
from testbed.systems.system import Assignment, System
from testbed.topology.circuits import jumps, ways
from testbed.topology.fabric import Fabric


def plan(job: Assignment, fabric: Fabric) -> Plan:
    """A ring all-reduce for each jump and direction, each of an equal part of the gradient."""
    options = SYSTEM.settle({}) | dict(job.options)
    workers = len(job.workers)
    chosen = fabric.jumps if workers == len(fabric.hosts) else ()
    around = ways(workers, chosen or jumps(workers, options["rings"])) or (0,)
    rings = tuple(
        Ring(
            tuple((at * jump % workers, (at + 1) * jump % workers) for at in range(workers)),
            tuple((number * workers + chunk,) for chunk in range(workers)),
            Turn.BOTH,
        )
        for number, jump in enumerate(around)
    )
    return Plan(
        system="topoopt",
        hosts=job.workers,
        workers=workers,
        chunks=len(rings) * workers,
        programs=Stages(workers, [rings]),
    )


class TopoOptOptions(Options):
    """The rings to use if no circuits were chosen."""

    rings: int = Field(
        default=2,
        ge=1,
        le=64,
        description="the jumps of rings on a fabric without circuits, each used in both directions,"
        " a whole number from 1 to 64; where circuits connect just the job's workers, theirs count",
        examples=[2],
    )


SYSTEM = System(
    name="topoopt",
    title="TopoOpt",
    colour="#3b3b98",
    marker="3",
    citation="Wang et al., TopoOpt: Co-optimizing Network Topology and Parallelization Strategy "
    "for Distributed Training Jobs, NSDI 2023; arXiv 2202.00433",
    published=(
        "Servers have d links on an optical switch or patch panel, whose circuits are chosen for a "
        "job and stay; servers forward for one another.",
        "An all-reduce may go around any ring whose jump is prime to the number of servers, so "
        "circuits form several such rings, their jumps in a geometric series (TotientPerms). The "
        "gradient is divided over the rings.",
        "On R rings of n servers each has 2(n-1) rounds of parts of M/(n R).",
    ),
    reading=(
        "All links serve the all-reduce, as in the released code; the paper gives some to model "
        "parallelism, of which there is none here. So the search of strategies is left out.",
        "A circuit is full duplex and used in both directions, so d links are d/2 jumps and d "
        "directed rings: 2(n-1)/n M/(d B).",
        "On another fabric, or with fewer workers than hosts, the rings of the option rings run on "
        "what paths there are. That is outside TopoOpt, which gives each job circuits of its own, "
        "and may be slower than one ring.",
        "Setting up circuits delays the job's start and is not part of its time.",
        "There is no barrier between rounds: a part is passed on as soon as it has arrived.",
    ),
    servers=(0, 0),
    plan=plan,
    options=TopoOptOptions,
)
