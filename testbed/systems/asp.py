"""ASP: every update is added and answered at once, without waiting for the other workers."""

from __future__ import annotations

from testbed.plan.program import Consistency, Plan
from testbed.systems import asynchronous
from testbed.systems.ps import Pieces
from testbed.systems.system import Assignment, System
from testbed.topology.fabric import Fabric


def plan(job: Assignment, fabric: Fabric) -> Plan:
    """Updates that never wait."""
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
        "A server adds each gradient to its parameters as it arrives.",
    ),
    reading=(
        *asynchronous.READING,
        "In a cluster, only chance spaces the workers. In our emulation, three or more that start "
        "together are evenly spaced after a few iterations; two stay together.",
    ),
    servers=(1, 64),
    waits=False,
    plan=plan,
    options=Pieces,
)
