"""How gradients fill the frames of a fabric, and the share of a link that they get."""

from __future__ import annotations

from dataclasses import dataclass

from testbed import wire
from testbed.topology.fabric import Fabric

_ETHERNET, _IP, _UDP, _TCP, _ROCE = 14, 20, 8, 32, 12
_HEADERS = _ETHERNET + _IP + _UDP + wire.HEADER_BYTES

MOST_HEADERS = _HEADERS + _ROCE
"""Bytes of all headers of an INA or RoCE packet; those without values are no longer."""

TCP_HEADERS = _ETHERNET + _IP + _TCP
"""Bytes of a segment's headers on a link, with timestamps."""


LARGEST_SUPERFRAME = 6
"""Segments that the kernel may carry through the fabric as one, as it does to and from network
cards: most processor time is per packet, and six are still small compared with a queue."""

_SUPERFRAME_BYTES = 32_768
"""Bytes of a superframe at most, which limits it where frames are jumbos."""


@dataclass(frozen=True)
class Framing:
    """The size of packets: an INA packet holds ``values`` int32; an IP packet is at most ``mtu``
    bytes long, and TCP's packets are that long."""

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
        """Gradient bytes per byte on a link, INA packets."""
        return self.values * 4 / self.frame

    @property
    def ina_ack_share(self) -> float:
        """Bytes of receipts sent back per byte of gradient, where no sum returns."""
        return _HEADERS / (self.values * 4)

    @property
    def tcp_efficiency(self) -> float:
        """Gradient bytes per byte on a link, full TCP segments with timestamps."""
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
