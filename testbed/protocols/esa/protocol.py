"""ESA (Wang et al., arXiv 2201.06398): the behaviour of its switches and hosts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import accumulate
from typing import Any

from testbed import wire
from testbed.plan.program import SwitchAllReduce
from testbed.plan.units import Unit
from testbed.protocols.atp.protocol import PROTOCOL as ATP
from testbed.protocols.atp.protocol import Atp

MOST_BYTES = 1 << 20
"""A unit has the highest priority if fewer bytes than this remain to be summed. With this many it
has the next lower one, and each doubling lowers it by one."""


class Esa(Atp):
    """ATP's hosts; each unit of a gradient has a priority."""

    def priorities(
        self, options: Mapping[str, Any], units: Sequence[Unit], scale: Fraction | float
    ) -> tuple[int, ...]:
        """Priorities from 1, the lowest, to 7; 0 is for packets of other protocols."""
        by = options.get("priority", "remaining")
        if isinstance(by, int):
            return (by,) * len(units)
        if by == "layer":
            return _by_layer(units)
        sizes = (4 * unit.elements for unit in reversed(units))
        left = [int(size / scale) for size in accumulate(sizes)]
        return tuple(_by_size(size) for size in reversed(left))


def _by_layer(units: Sequence[Unit]) -> tuple[int, ...]:
    """Higher for gradients that are ready later: the next forward pass needs them earlier."""
    order = sorted({unit.ready_s for unit in units})
    place = {ready_s: at for at, ready_s in enumerate(order)}
    return tuple(
        1 + wire.MOST_PRIORITY * place[unit.ready_s] // max(1, len(order)) for unit in units
    )


def _by_size(left: int) -> int:
    return max(1, wire.MOST_PRIORITY - (left // MOST_BYTES).bit_length())


PROTOCOL = Esa(
    name="esa",
    citation="Wang et al., Efficient Data-Plane Memory Scheduling for In-Network Aggregation, "
    "arXiv 2201.06398",
    published=(
        "Slots are allocated preemptively, by the priority of packets, in the data plane; a slot "
        "does not wait until a job is done with it.",
        "Priorities are to shorten the mean completion time of the jobs that share a switch.",
    ),
    reading=(
        "Only the abstract was at hand; packets and hosts are ATP's, congestion control included.",
        "A packet has a priority of three bits. One that is higher than the slot's takes the slot; "
        "the sum in it goes up to its own server. Others go up as in ATP. Priorities do not age.",
        "A complete sum frees its slot when it leaves. If it is lost, members retransmit.",
        "By default a priority falls with the logarithm of the bytes that the job still has to "
        "sum in the iteration; it may follow the layer or be the job's own.",
        "A part of a sum that others do not complete is flushed by a member's retransmission, "
        "which takes the place of a reminder from the server.",
    ),
    loss=ATP.loss,
    operations=(SwitchAllReduce,),
    congestion=ATP.congestion,
    number=7,
    control="esa.p4",
    switch_may_be_root=False,
    shares_slots=True,
    survives_restart=True,
    watches_overflow=True,
)
