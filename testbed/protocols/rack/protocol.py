"""What Rina (Chen et al., ICNP 2024) asks of a rack's switch, and of a rank that it deals with."""

from __future__ import annotations

from testbed.plan.program import Multicast, SwitchReduce
from testbed.protocols.protocol import TreeProtocol
from testbed.protocols.rack.reference import MODEL

PROTOCOL = TreeProtocol(
    name="rack",
    citation="Chen et al., Rina: Enhancing Ring-AllReduce with In-network Aggregation in "
    "Distributed Model Training, ICNP 2024; arXiv 2407.19721",
    published=("A rack's workers are summed in their ToR and deal with other racks as one.",),
    reading=(
        "The paper's text was not at hand; its abstract and summaries were. The packets are ours.",
        "Slots are a pool as SwitchML's. The sum leaves as one stream towards the root, a rank, "
        "whose acknowledgements are copied to all members.",
        "A rank's values are copied into the rack. The members' receipts are gathered in the "
        "slot, and one goes back.",
    ),
    loss="Members send again until the acknowledgement comes, a rank that multicasts until all "
    "receipts are in.",
    operations=(SwitchReduce, Multicast),
    number=3,
    control="rack.p4",
    switch_may_be_root=False,
    reference=MODEL,
)
