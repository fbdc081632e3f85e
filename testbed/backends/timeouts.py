"""The hosts' shortest timeouts in the emulator; virtual time with dilated timers has the same.

Links are slower by the dilation, and round trips longer. With a fixed timeout, hosts would
retransmit packets that are only on their way or in a queue.
"""

from __future__ import annotations

_LEAST_TCP_S = 0.01
"""TCP's minimum retransmission timeout, where dilation does not lengthen it. The kernel's 200 ms
would be longer than some whole transfers."""

_LEAST_UNDILATED_S = 1e-4
"""No timeout is shorter than this, in the cluster's time."""

_FULL_PACE = 1000.0
"""The dilation up to which the engine's own constants (testbed/hosts/engine/window.c) suffice."""


def least_tcp_timeout_s(dilation: float) -> float:
    """TCP's minimum retransmission timeout, in seconds of the dilated clock."""
    return max(_LEAST_TCP_S, _LEAST_UNDILATED_S * dilation)


def engine_pace(dilation: float) -> float:
    """The seconds that pass on the engine's clock in a second of the dilated clock."""
    return min(1.0, _FULL_PACE / dilation)
