"""PANAMA (Gebara et al., MLSys 2021): the behaviour of its switches and hosts."""

from __future__ import annotations

from testbed.plan.program import SwitchAllReduce
from testbed.protocols.congestion import Congestion
from testbed.protocols.protocol import TreeProtocol

PROTOCOL = TreeProtocol(
    name="panama",
    citation="Gebara, Costa and Ghobadi, In-Network Aggregation for Shared Machine Learning "
    "Clusters, MLSys 2021",
    published=(
        "A sum that arrives is the acknowledgement of the fragment.",
        "A contribution marked for congestion (ECN) marks the sum.",
        "Hosts react to marks similarly to DCTCP.",
    ),
    reading=(
        "Only the abstract was at hand. Slots, duplicates and lost packets are as in SwitchML.",
        "The window is DCTCP's (RFC 8257, gain 1/16, first share 1), counted in fragments.",
        "A gap in the sums takes an eighth of a fragment from the window for each one missing, and "
        "a timeout halves it.",
        "The accelerator adds floats; here values are int32, as everywhere in this testbed.",
    ),
    loss="Members retransmit the same packet. A switch that has the result answers; one that has "
    "only the sum sends it up again.",
    operations=(SwitchAllReduce,),
    congestion=Congestion(
        "dctcp",
        "RFC 8257: once a window, the window shrinks by half the smoothed share of marked sums, or "
        "grows by one",
        marks=True,
    ),
    number=5,
    control="switchml.p4",
    switch_may_be_root=True,
)
