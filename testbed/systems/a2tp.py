"""A2TP: ATP whose workers use fewer slots that others want, and fewer still if some are
stragglers."""

from __future__ import annotations

from testbed.plan.program import Plan
from testbed.protocols.a2tp.protocol import PROTOCOL as A2TP
from testbed.systems import atp
from testbed.systems.system import Assignment, System, WithWindow
from testbed.topology.fabric import Fabric


def plan(job: Assignment, fabric: Fabric) -> Plan:
    """ATP's trees."""
    return atp.best_effort(job, fabric, "a2tp", A2TP)


SYSTEM = System(
    name="a2tp",
    title="A2TP",
    colour="#7b2d26",
    marker="+",
    citation="Li et al., A2TP: Aggregator-aware In-network Aggregation for Multi-tenant Learning, "
    "EuroSys 2023; rules and constants from its released code",
    published=(
        "ToRs and servers sum as in ATP.",
        "Two windows control each worker: congestion of the network (ECN) and contention for "
        "aggregators change them apart.",
        "A switch tells the owner of a slot that others wanted it. The owner then sends more of "
        "its fragments past the switches, so that a job that waits for a straggler leaves slots "
        "to others.",
    ),
    reading=(
        "We had the code and not the paper's text.",
        "Trees, servers and their parts of a bucket are as in ATP here.",
        "The flow simulator has no slots, so A2TP is ATP there.",
    ),
    servers=(1, 64),
    aggregates=True,
    carries=True,
    plan=plan,
    options=WithWindow,
)
