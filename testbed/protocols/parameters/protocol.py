"""Updates of parameters at servers, for ASP, SSP and R2SP."""

from __future__ import annotations

from testbed.plan.program import Update
from testbed.protocols.chunks.protocol import PROTOCOL as CHUNKS
from testbed.protocols.protocol import Protocol

PROTOCOL = Protocol(
    name="parameters",
    citation="Ho et al., More Effective Distributed ML via a Stale Synchronous Parallel Parameter "
    "Server, NIPS 2013",
    published=(
        "A server adds each gradient to its parameters as it arrives, and answers with them as "
        "soon as the plan's consistency allows.",
    ),
    reading=(
        "An answer says how many updates of each worker it contains, which determines its value "
        "exactly.",
        "Where workers take turns, a message without values gives a worker its turn.",
    ),
    loss=CHUNKS.loss,
    operations=(Update,),
    port=CHUNKS.port,
    congestion=CHUNKS.congestion,
)
