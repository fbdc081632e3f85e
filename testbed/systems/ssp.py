"""SSP: a worker may be ahead of the slowest by a bounded number of iterations."""

from __future__ import annotations

from pydantic import Field

from testbed.plan.program import Consistency, Plan
from testbed.systems import asynchronous
from testbed.systems.ps import Pieces
from testbed.systems.system import Assignment, System
from testbed.topology.fabric import Fabric

STALENESS = 3


def plan(job: Assignment, fabric: Fabric) -> Plan:
    """Updates whose answer is held back while its worker would get too far ahead."""
    staleness = job.options.get("staleness", STALENESS)
    return asynchronous.plan(job, "ssp", Consistency(staleness=staleness))


class SspOptions(Pieces):
    """How many iterations workers may be apart, and the pieces."""

    staleness: int = Field(
        default=STALENESS,
        ge=0,
        description="the iterations that the fastest may be ahead of the slowest, a whole number of"
        " iterations, at least 0",
        examples=[STALENESS],
    )


SYSTEM = System(
    name="ssp",
    title="SSP",
    colour="#e377c2",
    marker=">",
    citation="Ho et al., More Effective Distributed ML via a Stale Synchronous Parallel Parameter "
    "Server, NIPS 2013",
    published=(
        "The fastest and the slowest worker are at most s iterations apart.",
        "A worker in iteration c sees every update of iterations before c - s; s = 0 is a barrier.",
    ),
    reading=(
        *asynchronous.READING,
        "The server adds an update as it arrives, and holds the answer back until it contains, of "
        "every worker, at most s fewer updates than of the worker that it goes to.",
        "It may wait for a worker whose transfers loss has slowed down, even if all compute at one "
        "speed.",
        "With s = 0 workers start together.",
        f"The default of s is {STALENESS}.",
    ),
    servers=(1, 64),
    waits=False,
    plan=plan,
    options=SspOptions,
)
