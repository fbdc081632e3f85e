"""What a tree has to itself: a number, a part of the switches' memory, and a window."""

from __future__ import annotations

from dataclasses import dataclass

from testbed.plan.trees import Tree


@dataclass(frozen=True)
class Allocation:
    """A tree as switches are told of it.

    Attributes:
        number: the tree's number in packets, unique in a run.
        job: the number of the job for which its events are counted.
        first, slots: its part of every switch's memory, which trees may share if their protocol
            lets them.
    """

    number: int
    job: int
    tree: Tree
    first: int
    slots: int


@dataclass(frozen=True)
class Window:
    """What a sender on a tree may have in flight.

    ``fragments``; ``message`` is how many of them make a message, 0 where there are none;
    ``drain_s`` is how long a window of all streams takes at the root, scaled as rates are.
    """

    fragments: int
    message: int = 0
    drain_s: float = 0.0
