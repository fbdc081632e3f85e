"""How the kernel shapes an emulated link; virtual time with dilated timers does the same."""

from __future__ import annotations

from testbed.topology.fabric import Fabric
from testbed.topology.framing import framing

_LEAST_BURST = 2  # full frames
_BURST_TIME = 0.0005


def burst_bytes(fabric: Fabric, rate: float) -> int:
    """Bytes that an idle link of ``rate`` (bit/s, dilated) may send at once."""
    return max(_LEAST_BURST * framing(fabric).full_frame, round(rate / 8 * _BURST_TIME))
