"""Updates of parameters at servers, as ASP, SSP and R2SP need them."""

from __future__ import annotations

from testbed.plan.program import Update
from testbed.protocols.chunks.protocol import PROTOCOL as CHUNKS
from testbed.protocols.protocol import Protocol

PROTOCOL = Protocol(
    name="parameters",
    citation="Ho et al., More Effective Distributed ML via a Stale Synchronous Parallel Parameter "
    "Server, NIPS 2013",
    published=(
        "A server adds each gradient to its parameters as it comes, and answers with them as "
        "soon as the plan's consistency lets it.",
    ),
    reading=(
        "An answer says how many updates of each worker are in it, from which its value follows "
        "exactly.",
        "Where workers take turns, a message without values tells a worker that it is its turn.",
    ),
    loss=CHUNKS.loss,
    operations=(Update,),
    port=CHUNKS.port,
    congestion=CHUNKS.congestion,
)
