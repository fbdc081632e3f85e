"""Aggregation trees: where the contributions of a job's members are summed on the way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, runtime_checkable

from testbed import wire


@runtime_checkable
class Rules(Protocol):
    """What plans and hosts know of a tree's protocol; everything else is in
    ``testbed.protocols``."""

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
    """A tree whose leaves are members' hosts, and whose inner nodes are aggregating switches.

    Attributes:
        root: a host, or a switch if the protocol lets sums turn around there.
        rank_of: the rank on each member's host.
        parent: for every node but the root, the next aggregating node towards the root (kernel
            routers do not appear).
        protocol: how its switches and hosts behave.
        root_rank: the rank of the root, None for a switch.
        apart: whether streams from the root take other links than streams towards it, if there is a
            choice.
        turn: added to a child's place among its siblings, by which it takes one of its links (see
            `hop`), so that trees between the same switches take different ones.
    """

    root: str
    rank_of: Mapping[str, int]
    parent: Mapping[str, str]
    protocol: Rules
    root_rank: int | None = None
    apart: bool = False
    turn: int = 0

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

    def hop(self, child: str, hops: Sequence[str], down: bool) -> str:
        """Which of the equally short ``hops`` a stream takes from ``child`` to its parent, or
        ``down`` from the parent to the child.

        Children use them in turn, because ECMP's hash might put a tree's few large streams on one
        link.
        """
        place = self.turn + self._places[child] + (self.apart and down)
        return hops[place % len(hops)]

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

    @cached_property
    def is_wide(self) -> bool:
        """Whether a packet's bitmap is too narrow for a bit per rank, so that each node gives its
        children bits of their own instead."""
        return max(self.rank_of.values(), default=0) >= wire.BITMAP

    def bits(self, child: str) -> int:
        """The bits of the stream from ``child``: one for each rank in it, or on a wide tree only
        one, by its place among its parent's children."""
        if not self.is_wide:
            return sum(1 << rank for rank in self.ranks_below(child))
        return 1 << self._places[child] % wire.BITMAP

    def number(self, child: str) -> int:
        """On a wide tree, the number that makes the bits of ``child`` unique in the tree. It is its
        parent's number; a root that is a rank has one for each 64 children. 0 on other trees."""
        if not self.is_wide:
            return 0
        parent = self.parent[child]
        if parent in self.switches:
            return self._groups + 1 + self.switches.index(parent)
        return 1 + self._places[child] // wire.BITMAP

    @cached_property
    def behind(self) -> Mapping[tuple[int, int], frozenset[int]]:
        """On a wide tree, the ranks in the stream that has this number and bit (by its place)."""
        return {
            (self.number(child), self._places[child] % wire.BITMAP): self.ranks_below(child)
            for child in (self.parent if self.is_wide else ())
        }

    @cached_property
    def _places(self) -> Mapping[str, int]:
        """The place of each child among its parent's."""
        return {
            child: place
            for children in self._children.values()
            for place, child in enumerate(children)
        }

    @property
    def _groups(self) -> int:
        return 0 if self.root_rank is None else -(-self.streams // wire.BITMAP)

    @property
    def streams(self) -> int:
        """How many streams arrive at the root: its fan-in after aggregation."""
        return len(self.children(self.root))

    @property
    def participants(self) -> frozenset[int]:
        """The ranks that run an operation on this tree: its members, and the root if it is a
        rank."""
        root = frozenset() if self.root_rank is None else frozenset({self.root_rank})
        return root | frozenset(self.rank_of.values())
