"""The parts that hosts take in a tree: plain data, which the hosts' engine is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from testbed.plan.program import Plan
from testbed.plan.trees import Rules, Tree
from testbed.protocols.allocation import Allocation, Window
from testbed.topology.fabric import Fabric


@dataclass(frozen=True)
class Place:
    """Where a role is taken: rank ``rank`` of ``plan``, on the tree of ``allocation``.

    ``addresses`` maps nodes to IP.
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

    ``window`` is how many fragments may be in flight. ``slots`` are switch memory: where trees
    share it ``window`` of them, that of fragment s at s modulo ``window``; else the first of
    2 * ``window`` that follow each other.
    """

    tree: int
    protocol: Rules
    window: int
    slots: Sequence[int] | npt.NDArray[np.uint32]
    rank: int
    parent: str


@dataclass(frozen=True)
class Child:
    """A node below a root, and the ranks whose contributions come from there."""

    address: str
    ranks: frozenset[int]


@dataclass(frozen=True)
class Root:
    """The rank in which ``tree`` ends.

    ``serves``: sums and answers whatever comes, without a part of its own (all-reduce).
    ``slots`` as a member's, but where trees share them spare ones that take the place of those
    that collided. ``workers`` are the members' addresses by rank, for a root that answers one
    alone.
    """

    tree: int
    protocol: Rules
    window: int
    slots: Sequence[int] | npt.NDArray[np.uint32]
    children: tuple[Child, ...]
    serves: bool = False
    workers: Mapping[int, str] | None = None


Role: TypeAlias = Member | Root


@dataclass(frozen=True)
class Neighbours:
    """A rank's place on the ring of ``tree``.

    ``to`` is the address to which its packets go, the next rank's or that of a switch in its
    place; ``after`` the next rank's, to which it sends sums again; ``before`` the address of the
    rank before; ``rank_before`` its number. ``message`` is packets, ``window`` messages in flight.
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
