"""Congestion control: how a protocol's hosts change the number of fragments in flight."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Congestion:
    """A named control.

    ``marks``: switches mark packets that leave a long queue (ECN), because hosts react to it.
    """

    name: str
    source: str
    marks: bool = False


NONE = Congestion("none", "the window is fixed")
AIMD = Congestion(
    "aimd",
    "ATP (Lao et al., NSDI 2021): the window grows with results, and is halved at most once a "
    "round trip when a queue is long (ECN) or a fragment late",
    marks=True,
)
RENO = Congestion("reno", "RFC 5681, in the kernel's TCP")
