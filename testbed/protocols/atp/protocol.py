"""ATP (Lao et al., NSDI 2021): the behaviour of its switches and hosts."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

from testbed.plan.program import SwitchAllReduce
from testbed.protocols.congestion import AIMD
from testbed.protocols.protocol import TreeProtocol
from testbed.protocols.roles import Place


class Atp(TreeProtocol):
    """Hosts name slots one by one, and the root moves fragments that collided."""

    def slots(self, place: Place) -> Sequence[int]:
        """A slot for each place of the window; for a root, at most as many spare slots."""
        size, slots = place.window.fragments, place.allocation.slots
        found = hashed_slots(place.allocation.number, min(2 * size, slots), slots)
        return found[size:] if place.is_root else found[:size]


def hashed_slots(tree: int, count: int, slots: int) -> Sequence[int]:
    """``count`` distinct slots: each the hash of tree and place, or the next free one after it.

    ATP's hosts hash (CRC32 in the released client), and take the next slot if one of their own
    fragments already has it. Raises ValueError if there are fewer ``slots``.
    """
    if count > slots:
        raise ValueError(f"{count} places need more than {slots} slots")
    taken: dict[int, None] = {}
    for place in range(count):
        slot = zlib.crc32(tree.to_bytes(2, "big") + place.to_bytes(4, "big")) % slots
        while slot in taken:
            slot = (slot + 1) % slots
        taken[slot] = None
    return tuple(taken)


PROTOCOL = Atp(
    name="atp",
    citation="Lao et al., ATP: In-network Aggregation for Multi-tenant Learning, NSDI 2021",
    published=(
        "The host names the slot by a hash; jobs share slots, and the first fragment to arrive "
        "claims one.",
        "A slot taken by another fragment is a collision: the packet goes on to the root, which "
        "names another slot for the fragments that follow.",
        "The root's result is the acknowledgement: it frees slots and is multicast back.",
        "A retransmitted fragment flushes the partial sum to the root and is not summed again.",
        "The root recomputes a sum that leaves the range of int32 from floats.",
    ),
    reading=(
        "A bit is a worker at both levels if there are at most 64, and a child of a switch "
        "otherwise; the paper has a bitmap of 32 for each level. What a switch of a larger tree "
        "has not summed passes the switches above.",
        "The root counts each worker once, however often its packets arrive.",
        "The window starts at its largest, and is at least 8 fragments. ECN and timeouts halve it. "
        "A gap in the answers takes an eighth of a fragment for each one missing, where the paper "
        "halves the window: under random loss there is always a gap, because each member sees the "
        "losses of all.",
    ),
    loss="A member that misses a result retransmits the fragment, marked; the root sums what "
    "arrives and answers that member alone. Switch memory may be lost as well.",
    operations=(SwitchAllReduce,),
    congestion=AIMD,
    number=1,
    control="atp.p4",
    switch_may_be_root=False,
    shares_slots=True,
    survives_restart=True,
    watches_overflow=True,
)
