"""The hosts' roles in a tree: plain data for the hosts' engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from testbed.plan.program import Plan
from testbed.plan.trees import Rules, Tree
from testbed.protocols.allocation import Allocation, Window
from testbed.topology.fabric import Fabric


@dataclass(frozen=True)
class Place:
    """The place of a role: rank ``rank`` of ``plan``, on the tree of ``allocation``.

    ``addresses`` maps nodes to IP addresses.
    """

    plan: Plan
    rank: int
    allocation: Allocation
    addresses: Mapping[str, str]
    window: Window
    fabric: Fabric

    @property
    def tree(self) -> Tree:
        return self.allocation.tree

    @property
    def host(self) -> str:
        return self.plan.hosts[self.rank]

    @property
    def is_root(self) -> bool:
        return self.rank == self.tree.root_rank

    @property
    def parent(self) -> str:
        """The address of the next aggregating node, unless this is the root."""
        return self.addresses[self.tree.parent[self.host]]


@dataclass(frozen=True)
class Member:
    """A rank that contributes to ``tree`` and sends to ``parent``, the next aggregating node.

    ``window`` is how many fragments may be in flight. ``slots`` are slots of switch memory. If
    trees share it, there are ``window`` of them, and fragment s uses the one at s modulo
    ``window``; otherwise ``slots`` has the first of 2 * ``window`` consecutive slots. ``bit`` is
    its bit in packets, and ``origin`` the number that makes this bit unique (``Tree.number``).
    """

    tree: int
    protocol: Rules
    window: int
    slots: Sequence[int]
    bit: int
    parent: str
    origin: int = 0


@dataclass(frozen=True)
class Child:
    """A node below a root, and the ranks whose contributions come from there."""

    address: str
    ranks: frozenset[int]


@dataclass(frozen=True)
class Root:
    """The rank at the root of ``tree``.

    ``serves``: it sums and answers, and contributes nothing itself (all-reduce). ``slots`` are like
    a member's; if trees share slots, they are spare slots for fragments that collided. ``workers``
    are the members' addresses by rank, for a root that answers a single member. ``behind`` has the
    ranks behind each number and bit (``Tree.behind``); if empty, bits are ranks.
    """

    tree: int
    protocol: Rules
    window: int
    slots: Sequence[int]
    children: tuple[Child, ...]
    serves: bool = False
    workers: Mapping[int, str] | None = None
    behind: Mapping[tuple[int, int], frozenset[int]] = field(default_factory=dict)


Role: TypeAlias = Member | Root


@dataclass(frozen=True)
class Neighbours:
    """A rank's place on the ring of ``tree``.

    ``to`` is the address to which its packets go: that of the next rank or of a switch. ``after``
    is the next rank's address, to which it retransmits sums; ``before`` and ``rank_before`` are the
    address and the number of the previous rank. ``message`` is the number of packets in a message,
    ``window`` the number of messages in flight.
    """

    tree: int
    protocol: Rules
    rank: int
    to: str
    after: str
    before: str
    rank_before: int
    message: int
    window: int
