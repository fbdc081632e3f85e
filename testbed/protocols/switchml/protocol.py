"""SwitchML (Sapio et al., NSDI 2021): the behaviour of its switches and hosts."""

from __future__ import annotations

from testbed.plan.program import SwitchAllReduce
from testbed.protocols.protocol import TreeProtocol

PROTOCOL = TreeProtocol(
    name="switchml",
    citation="Sapio et al., Scaling Distributed Machine Learning with In-Network Aggregation, "
    "NSDI 2021",
    published=(
        "A tree has its own pool of slots in two versions: one keeps its sum for members that "
        "missed it while the other is filled.",
        "A result for a slot lets its next packet go; the window is the pool.",
        "A switch sends a complete sum to all, and answers a repeated packet to its sender alone.",
    ),
    reading=(
        "A slot stores its fragment's number, instead of clearing bits in the other version, so "
        "that old packets do no harm.",
        "Below the root a sum goes up, and its result is kept as it comes down.",
        "Hosts detect loss by gaps as well as by timers.",
    ),
    loss="Members retransmit the same packet. A switch that has the result answers; one that has "
    "only the sum sends it up again.",
    operations=(SwitchAllReduce,),
    number=2,
    control="switchml.p4",
    switch_may_be_root=True,
)
