"""A tree's own resources: a number, a part of the switches' memory, and a window."""

from __future__ import annotations

from dataclasses import dataclass

from testbed.plan.trees import Tree


@dataclass(frozen=True)
class Allocation:
    """A tree as switches see it.

    Attributes:
        number: the tree's number in packets, unique in a run.
        job: the number of the job for which its events are counted.
        first, slots: its part of every switch's memory; trees may share it if their protocol
            allows that.
    """

    number: int
    job: int
    tree: Tree
    first: int
    slots: int


@dataclass(frozen=True)
class Window:
    """What a sender on a tree may have in flight.

    ``fragments`` is their number; ``message`` is the number of fragments in a message, 0 without
    messages; ``drain_s`` is how long the slowest link takes for a window of all streams, in seconds
    scaled as rates are. If a switch's memory limits the window, ``cut_from`` is the number of
    fragments that the queues on the way would hold; otherwise it is 0.
    """

    fragments: int
    message: int = 0
    drain_s: float = 0.0
    cut_from: int = 0
