"""Paths that a controller chooses for all flows of all jobs, in place of ECMP."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from testbed.plan.cost import flows
from testbed.plan.program import Plan
from testbed.topology.fabric import Fabric
from testbed.topology.paths import Flow, Routes, spread


def spread_out(fabric: Fabric, jobs: Sequence[tuple[Plan, int]]) -> list[Routes]:
    """The routes of each job's own flows, so that no link is needlessly busy.

    A route is that of all flows between its ends. Switches that sum for several jobs may have
    streams between the same ends; these keep the links that their trees choose (`Tree.hop`).

    Args:
        jobs: for each job, its plan and the bytes of its gradient in an iteration. Flows that have
            a route in a plan keep it.
    """
    fixed = {flow: route for plan, _ in jobs for flow, route in plan.routes.items()}
    of_jobs = Counter(flow for plan, _ in jobs for flow in flows(plan))
    bytes_of = Counter[Flow]()
    for plan, gradient in jobs:
        for flow, share in flows(plan).items():
            if of_jobs[flow] == 1 or flow[0] in fabric.hosts:
                bytes_of[flow] += round(share * gradient)
    chosen = spread(fabric, bytes_of, fixed)
    return [
        {flow: chosen[flow] for flow in (*plan.routes, *flows(plan)) if flow in chosen}
        for plan, _ in jobs
    ]
