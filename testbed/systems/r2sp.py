"""R2SP: workers update in turns, evenly spaced, so that they do not contend at the server."""

from __future__ import annotations

from testbed.plan.program import Consistency, Plan
from testbed.systems import asynchronous
from testbed.systems.ps import Pieces
from testbed.systems.system import Assignment, System
from testbed.topology.fabric import Fabric


def plan(job: Assignment, fabric: Fabric) -> Plan:
    """Updates that are added in rank order, round after round."""
    return asynchronous.plan(job, "r2sp", Consistency(turns=True))


SYSTEM = System(
    name="r2sp",
    title="R2SP",
    colour="#393b79",
    marker="X",
    citation="Chen, Wang and Li, Round-Robin Synchronization: Mitigating Communication Bottlenecks "
    "in Parameter Servers, INFOCOM 2019",
    published=(
        "Workers update in an evenly gapped round-robin order, so that they do not contend for the "
        "server's bandwidth.",
    ),
    reading=(
        *asynchronous.READING,
        "Turns go by rank, and ranks are numbered rack by rack. So with several servers, workers "
        "of one rack have turns together, and share its links. A turn is as long as its slowest "
        "transfer: where ECMP hashes two onto one link, the whole turn is longer.",
        "A turn is all that one worker pushes to a server in an iteration, and the server notifies "
        "the next worker when it has all of it. A worker pushes at full rate once its last "
        "gradient is ready, not during backward. Answers overlap the next worker's turn.",
        "Several servers have as many workers' turns at once: a worker pushes its share for the "
        "first server, then for the second, and so on. Two shares at once would leave both "
        "servers' links half idle, and their answers would meet at the worker's link.",
        "All workers wait for a straggler's turn.",
        "The paper tunes the batch of each worker in an uneven cluster; here batches are equal.",
    ),
    servers=(1, 64),
    waits=False,
    plan=plan,
    options=Pieces,
)
