"""OmniReduce (Fei et al., SIGCOMM 2021): the behaviour of its switches and hosts."""

from __future__ import annotations

from testbed.plan.program import SwitchAllReduce
from testbed.protocols.protocol import TreeProtocol


class OmniReduce(TreeProtocol):
    """A packet is not sent if all its values are 0 at all ranks. Exceptions are the first packets
    of a chunk, one for each fragment of the window. If a packet is sent, a rank that has only zeros
    for it sends zeros."""

    def carried(self, packets: int, window: int, values: int, union: float) -> float:
        always = min(packets, window)
        return always + (packets - always) * union


PROTOCOL = OmniReduce(
    name="omnireduce",
    citation="Fei et al., Efficient Sparse Collective Communication and its Application to "
    "Accelerate Distributed Deep Learning, SIGCOMM 2021",
    published=(
        "A worker names its next block that is not zero with each block that it sends; the "
        "aggregator answers with the sum and the least of these, where all go on.",
        "A worker without values for a block sends zeros, in a packet of full size (the released "
        "code's form for networks that lose packets).",
        "Slots have two versions; a worker is counted once in a version, and a repeated packet of "
        "a complete sum is answered to its sender alone.",
        "The first blocks of a tensor, one for each slot, are always sent.",
    ),
    reading=(
        "A block is a packet. The released code can also put several smaller blocks into one.",
        "The aggregator is a switch: to SwitchML's slot it adds a register with the least next "
        "block. The released code has servers instead.",
        "Several switches form a tree: each sends the least next block upwards with its sum.",
        "A tensor's last block is followed by the first of the next tensor in the same slot, "
        "instead of a number that stands for infinity.",
        "Hosts detect loss by gaps and silence; the released code has a timeout of 1 ms.",
    ),
    loss="Members retransmit the same packet. A switch that has the result answers; one that has "
    "only the sum sends it up again.",
    operations=(SwitchAllReduce,),
    number=9,
    control="omnireduce.p4",
    switch_may_be_root=True,
    skips_zeros=True,
)
