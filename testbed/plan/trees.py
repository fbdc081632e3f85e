"""Aggregation trees: where the contributions of a job's members are summed on their way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol


class Rules(Protocol):
    """What plans and hosts know of a tree's protocol; the whole is in ``testbed.protocols``."""

    @property
    def name(self) -> str: ...

    @property
    def number(self) -> int:
        """The protocol's number in table entries and in the hosts' engine."""

    @property
    def port(self) -> int:
        """UDP port of its hosts."""

    @property
    def switch_may_be_root(self) -> bool:
        """Whether sums may turn around in a switch."""

    @property
    def shares_slots(self) -> bool:
        """Whether trees share switch memory, in which hosts name the slot of each packet."""


@dataclass(frozen=True)
class Tree:
    """A tree of which the leaves are members' hosts and the inner nodes aggregating switches.

    Attributes:
        root: a host, or a switch if the protocol lets sums turn around there.
        rank_of: each member's host and its rank.
        parent: every node but the root, and the next aggregating node towards the root (kernel
            routers do not appear).
        protocol: how its switches and hosts behave.
        root_rank: the rank of the root, None for a switch.
    """

    root: str
    rank_of: Mapping[str, int]
    parent: Mapping[str, str]
    protocol: Rules
    root_rank: int | None = None

    @cached_property
    def switches(self) -> tuple[str, ...]:
        """The aggregating switches, each one before its parent."""
        inner = set(self.parent.values())
        if self.root_rank is not None:
            inner.discard(self.root)
        return tuple(sorted(inner, key=lambda node: (-self.depth(node), node)))

    @cached_property
    def _children(self) -> dict[str, tuple[str, ...]]:
        children: dict[str, list[str]] = {}
        for child, parent in self.parent.items():
            children.setdefault(parent, []).append(child)
        return {parent: tuple(found) for parent, found in children.items()}

    def children(self, node: str) -> tuple[str, ...]:
        return self._children.get(node, ())

    def hop(self, child: str, hops: Sequence[str]) -> str:
        """The one of the equally short ``hops`` for traffic between ``child`` and its parent.

        Children take turns: ECMP's hash might put a tree's few large streams on one link.
        """
        return hops[self.children(self.parent[child]).index(child) % len(hops)]

    def predecessor(self, host: str) -> str:
        """The member before ``host`` on the ring of members in rank order."""
        ring = sorted(self.rank_of, key=self.rank_of.__getitem__)
        return ring[ring.index(host) - 1]

    def depth(self, node: str) -> int:
        steps = 0
        while node != self.root:
            node, steps = self.parent[node], steps + 1
        return steps

    def ranks_below(self, node: str) -> frozenset[int]:
        """The ranks whose contributions are in the stream from ``node`` upwards."""
        own = {self.rank_of[node]} if node in self.rank_of and node in self.parent else set()
        return frozenset(own).union(*(self.ranks_below(child) for child in self.children(node)))

    @property
    def streams(self) -> int:
        """How many streams arrive at the root: its fan-in after aggregation."""
        return len(self.children(self.root))

    @property
    def participants(self) -> frozenset[int]:
        """The ranks that run an operation on this tree: its members, and the root if a rank."""
        root = frozenset() if self.root_rank is None else frozenset({self.root_rank})
        return root | frozenset(self.rank_of.values())
