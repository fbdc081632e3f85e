"""SwitchML (Sapio et al., NSDI 2021), as its switches and hosts behave."""

from __future__ import annotations

from testbed.plan.program import SwitchAllReduce
from testbed.protocols.protocol import TreeProtocol
from testbed.protocols.switchml.reference import MODEL

PROTOCOL = TreeProtocol(
    name="switchml",
    citation="Sapio et al., Scaling Distributed Machine Learning with In-Network Aggregation, "
    "NSDI 2021",
    published=(
        "A tree has a pool of slots to itself, in two versions: one keeps its sum for whoever "
        "missed it while the other is filled.",
        "A result for a slot lets its next packet go; the window is the pool.",
        "A switch answers all with a complete sum, and alone who sends again what was answered.",
    ),
    reading=(
        "A slot knows its fragment, in place of clearing bits in the other version, so that "
        "packets out of the past do no harm.",
        "Below the root a sum goes up, and its result is kept as it comes down.",
        "Hosts look for gaps as well as timers.",
    ),
    loss="Members send the same packet again. A switch that has the result answers, one that has "
    "the sum alone sends it up again.",
    operations=(SwitchAllReduce,),
    number=2,
    control="switchml.p4",
    switch_may_be_root=True,
    reference=MODEL,
)
