"""How gradients fill the frames of a fabric, and the share of a link that they get."""

from __future__ import annotations

from dataclasses import dataclass

from testbed import wire
from testbed.topology.fabric import Fabric

_ETHERNET, _IP, _UDP, _TCP, _ROCE = 14, 20, 8, 32, 12
_HEADERS = _ETHERNET + _IP + _UDP + wire.HEADER_BYTES

MOST_HEADERS = _HEADERS + _ROCE
"""Bytes of all headers of an INA or RoCE packet; packets without values are not longer."""

TCP_HEADERS = _ETHERNET + _IP + _TCP
"""Bytes of a segment's headers on a link, with timestamps."""


LARGEST_SUPERFRAME = 6
"""The number of segments that the kernel may carry through the fabric as one packet, as it does to
and from network cards. Most processor time is per packet, and six segments are still few compared
with a queue."""

_SUPERFRAME_BYTES = 32_768
"""The most bytes of a superframe. This is the limit for jumbo frames."""


@dataclass(frozen=True)
class Framing:
    """The size of packets: an INA packet holds ``values`` int32; an IP packet is at most ``mtu``
    bytes long, and full TCP packets have that length."""

    values: int = wire.VALUES
    mtu: int = 1500

    @property
    def frame(self) -> int:
        """Bytes of an INA packet on a link."""
        return _HEADERS + self.values * 4

    @property
    def full_frame(self) -> int:
        """Bytes of the largest frame on a link, a full TCP segment's."""
        return _ETHERNET + self.mtu

    @property
    def mss(self) -> int:
        """Bytes of data in a full TCP segment with timestamps."""
        return self.mtu - _IP - _TCP

    @property
    def ina_efficiency(self) -> float:
        """Gradient bytes per byte on a link, for INA packets."""
        return self.values * 4 / self.frame

    @property
    def ina_ack_share(self) -> float:
        """Bytes of receipts sent back per byte of gradient, if no sum returns."""
        return _HEADERS / (self.values * 4)

    @property
    def tcp_efficiency(self) -> float:
        """Gradient bytes per byte on a link, for full TCP segments with timestamps."""
        return self.mss / self.full_frame

    @property
    def tcp_ack_share(self) -> float:
        """Bytes of acknowledgement sent back per byte of stream (one for two segments)."""
        return TCP_HEADERS / 2 / self.mss


def framing(fabric: Fabric) -> Framing:
    return Framing(fabric.values, fabric.mtu)


def superframe(fabric: Fabric) -> int:
    """How many segments a frame on ``fabric`` may hold."""
    return max(1, min(LARGEST_SUPERFRAME, _SUPERFRAME_BYTES // fabric.mtu))
