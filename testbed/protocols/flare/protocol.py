"""Sparse Flare (De Sensi et al., SC 2021): the behaviour of its switches and hosts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from testbed.plan.program import SwitchAllReduce
from testbed.protocols.protocol import TreeProtocol

PAIR: Final = 2
"""The 32-bit values that an index and its value take in a packet."""
WINDOW: Final = 32
"""The default window, at most. It covers a round trip, and each slot more costs packets: its share
of a chunk is shorter, and the fullest entry and the last packet weigh more."""


class Flare(TreeProtocol):
    """Its hosts send the values that are not zero, each with its index."""

    def window(self, options: Mapping[str, Any], fair: int) -> tuple[int, int]:
        """As others, but by default at most WINDOW."""
        return super().window(options, min(fair, WINDOW))

    def carried(self, packets: int, window: int, values: int, union: float) -> float:
        """The mean number of packets for a slot's share of the chunk, summed over all slots.

        An entry needs a packet for each of its indices that some worker has. The fullest entry
        decides how many packets a share takes, and one packet without pairs ends it. Indices are
        independent: the number of an entry's pairs has a binomial distribution, and the mean of the
        largest of K such numbers is the sum over n of 1 - P(pairs <= n)^K.
        """
        import numpy as np
        from scipy.stats import binom  # slow to import, and few jobs need it

        entries = values // PAIR
        share, longer = divmod(packets, window)
        found = 0.0
        for length, slots in ((share, window - longer), (share + 1, longer)):
            if length and slots:
                most = PAIR * length
                fewer = binom.cdf(np.arange(most), most, union)
                found += slots * (1 + float((1 - fewer**entries).sum()))
        return found


PROTOCOL = Flare(
    name="flare",
    citation="De Sensi et al., Flare: Flexible In-Network Allreduce, SC 2021; arXiv 2106.15565",
    published=(
        "Hosts send pairs of an index and a value; a switch sums those of equal indices, in an "
        "array or in a hash table, and sends on the pairs that it has (handlers that are probably "
        "the paper's).",
        "A pair whose entry in the hash table another index has goes to a stash; a full stash goes "
        "to the parent.",
        "The last packet of a child's share of a block has their number, so that a switch knows "
        "when it has all.",
    ),
    reading=(
        "An index is hashed to its entry by its place in the gradient, modulo the entries of a "
        "packet; hosts put it there, because a P4 program has no loop.",
        "Of two indices in an entry the lesser stays. There is no stash: a host that sees another "
        "index in the sum sends its pair again. So no switch sends more packets than it receives.",
        "A host's pairs come in the order of their indices, so that each index is summed once, and "
        "a packet has as many pairs as a dense one has values, halved.",
        "No number of packets is announced: a sum without pairs ends a slot's share of a tensor, "
        "everywhere. All links carry the same packets, as many as the root sums.",
        f"Slots, versions and answers are SwitchML's. The default window is {WINDOW} packets, if "
        "the fabric's queues allow it: shares of more slots are shorter, and take more packets.",
        "Hosts detect loss by gaps and silence.",
    ),
    loss="Members retransmit the same packet. A switch that has the result answers; one that has "
    "only the sum sends it up again.",
    operations=(SwitchAllReduce,),
    number=10,
    control="flare.p4",
    switch_may_be_root=True,
    skips_zeros=True,
)
