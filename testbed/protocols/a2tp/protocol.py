"""A2TP (Li et al., EuroSys 2023): the behaviour of its switches and hosts."""

from __future__ import annotations

from testbed.plan.program import SwitchAllReduce
from testbed.protocols.atp.protocol import PROTOCOL as ATP
from testbed.protocols.atp.protocol import Atp
from testbed.protocols.congestion import Congestion

PROTOCOL = Atp(
    name="a2tp",
    citation="Li et al., A2TP: Aggregator-aware In-network Aggregation for Multi-tenant Learning, "
    "EuroSys 2023; rules and constants from its released code",
    published=(
        "Slots, collisions and answers are ATP's. A packet that finds its slot taken marks the "
        "slot, and the slot's owner gets the mark with its sum.",
        "A window for the network shrinks with the share of marked answers (ECN), a window for "
        "aggregators with the share of contended ones beyond a tenth, the more so the fewer "
        "answers arrive in order (stragglers). Both grow by one if there is no mark.",
        "The first fragments of a window, as many as the second window has, use aggregators; the "
        "rest goes to the server, as retransmissions do. A tensor's first window always uses them.",
        "The server names another slot for what follows a collision or a fragment that went past "
        "the switches, unless others wanted the slot.",
    ),
    reading=(
        "We had the code and not the paper's text.",
        "A window begins when the first fragment of the previous one is answered, counted in "
        "fragments, so that workers agree on what goes past the switches.",
        "The degree of straggling is measured one to five round trips after an adjustment; in the "
        "code, 20 to 100 us.",
        "Gaps and timeouts do not change the windows.",
    ),
    loss=ATP.loss,
    operations=(SwitchAllReduce,),
    congestion=Congestion(
        "two windows",
        "A2TP (Li et al., EuroSys 2023): fragments in flight by ECN, and those of them that use "
        "aggregators by contention for their slots",
        marks=True,
    ),
    number=6,
    control="a2tp.p4",
    switch_may_be_root=False,
    shares_slots=True,
    survives_restart=True,
    watches_overflow=True,
)
