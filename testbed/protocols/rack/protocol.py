"""Rina's rack (Chen et al., ICNP 2024): its switch, and the rank that exchanges with it."""

from __future__ import annotations

from testbed.plan.program import Multicast, SwitchReduce
from testbed.protocols.protocol import TreeProtocol

PROTOCOL = TreeProtocol(
    name="rack",
    citation="Chen et al., Rina: Enhancing Ring-AllReduce with In-network Aggregation in "
    "Distributed Model Training, ICNP 2024; arXiv 2407.19721",
    published=("The ToR sums its rack's workers, which act as one towards other racks.",),
    reading=(
        "We did not have the paper's text, only its abstract and summaries. The packets are ours.",
        "Slots are a pool as in SwitchML. The sum leaves as one stream towards the root, a rank, "
        "whose acknowledgements are copied to all members.",
        "A rank's values are copied into the rack. The slot collects the members' receipts, and "
        "one goes back.",
    ),
    loss="Members retransmit until the acknowledgement comes; a rank that multicasts retransmits "
    "until all receipts are in.",
    operations=(SwitchReduce, Multicast),
    number=3,
    control="rack.p4",
    switch_may_be_root=False,
)
