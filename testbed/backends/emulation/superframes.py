"""How many packets the kernel carries through an emulated fabric as one."""

from __future__ import annotations

from testbed.topology import framing
from testbed.topology.fabric import Fabric

_LONGEST_S = 0.006
"""The longest that a superframe takes on the slowest link. A shaper passes it at once, so its
packets arrive earlier than they could, and then lets nothing pass until it is paid for, which hosts
may take for a loss. Slower links carry fewer packets, so more of them may be single."""


def superframe(fabric: Fabric, dilation: float | None) -> int:
    """How many packets a frame may hold on the links of ``fabric``, slowed by ``dilation``; None
    for links of any rate."""
    most = framing.superframe(fabric)
    if dilation is None:
        return most
    rate = min(link.rate for link in fabric.links) / dilation
    packet_s = framing.framing(fabric).full_frame * 8 / rate
    return max(1, min(most, int(_LONGEST_S / packet_s)))
