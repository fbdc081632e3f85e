"""Congestion control: how the hosts of a protocol change what they have in flight."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Congestion:
    """A named control.

    ``marks``: switches mark what leaves a long queue (ECN), because hosts answer to it.
    """

    name: str
    source: str
    marks: bool = False


NONE = Congestion("none", "the window is fixed")
AIMD = Congestion(
    "aimd",
    "ATP (Lao et al., NSDI 2021): the window grows with results, and is halved once a round trip "
    "when a queue was long (ECN) or a fragment late",
    marks=True,
)
RENO = Congestion("reno", "RFC 5681, in the kernel's TCP")
