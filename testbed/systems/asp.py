"""ASP: every update is added and answered at once, whatever the other workers do."""

from __future__ import annotations

from testbed.plan.program import Consistency, Plan
from testbed.systems import asynchronous
from testbed.systems.system import Assignment, System
from testbed.topology.fabric import Fabric


def plan(job: Assignment, fabric: Fabric) -> Plan:
    """Updates that wait for nobody."""
    return asynchronous.plan(job, "asp", Consistency())


SYSTEM = System(
    name="asp",
    title="ASP",
    colour="#bcbd22",
    marker="<",
    citation="Dean et al., Large Scale Distributed Deep Networks, NIPS 2012; as a synchronisation "
    "model beside BSP and SSP: Ho et al., NIPS 2013",
    published=(
        "Workers push gradients and pull parameters without a barrier.",
        "A server adds each gradient to its parameters as it comes.",
    ),
    reading=(
        *asynchronous.READING,
        "Nothing but chance spaces workers in a cluster. In our emulation three or more that begin "
        "together are evenly spaced after a few iterations; two stay together.",
    ),
    servers=(1, 64),
    waits=False,
    plan=plan,
)
