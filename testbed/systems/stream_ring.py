"""A ring of workers and racks, in which the rack's ToR adds the sums that arrive at a rack.

Adjacent racks are a chain: each ToR adds its workers' packets to the previous ToR's stream.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from testbed.plan.program import (
    Multicast,
    Operation,
    Program,
    SwitchAllReduce,
    SwitchReduce,
    TreeOperation,
)
from testbed.plan.trees import Tree
from testbed.protocols.rack.protocol import PROTOCOL as RACK
from testbed.protocols.switchml.protocol import PROTOCOL as SWITCHML
from testbed.systems.racks import Group, joined

Station: TypeAlias = tuple[Group, ...]
"""A single worker, or a chain of adjacent racks."""


def programs(
    ring: Sequence[Group], ranks: Mapping[str, int]
) -> tuple[tuple[Program, ...], list[Tree]]:
    """The program of each rank, and the trees. There is a chunk for each of the `stations`.

    All ranks on a tree use it in the same order: the one in which chunks come by if all go around
    at the same speed.
    """
    around, trees = stations(ring), _Trees(ranks)
    moves: list[tuple[int, int, TreeOperation]] = []
    for chunk in range(len(around)):
        order = around[chunk:] + around[:chunk]
        place = 0
        for move, passed in _scatter_and_gather(order, trees):
            moves.append((place, chunk, move))
            place += passed
    written: list[list[Operation]] = [[] for _ in ranks]
    for _, chunk, operation in sorted(moves, key=lambda move: move[:2]):
        for rank in trees.grown[operation.tree].participants:
            written[rank].append(replace(operation, chunk=chunk))
    return tuple(map(tuple, written)), trees.grown


def stations(ring: Sequence[Group]) -> list[Station]:
    """The ring's single workers and its chains. A chain may lead from the ring's end to its
    start."""
    alone = [at for at, group in enumerate(ring) if group.tor is None]
    first = alone[0] if alone else 0
    found: list[Station] = []
    for group in (*ring[first:], *ring[:first]):
        if found and group.tor is not None and found[-1][0].tor is not None:
            found[-1] += (group,)
        else:
            found.append((group,))
    return found


def _scatter_and_gather(
    order: Sequence[Station], trees: _Trees
) -> Iterator[tuple[TreeOperation, int]]:
    """The operations of a chunk that passes the stations in ``order``, and then again those that do
    not have the sum yet. Each comes with the number of stations that it passes."""
    *others, last = order
    for before, chain, to in _hops(None, order):
        passed = 2 if before and chain and to else 1
        if to is None:
            yield SwitchAllReduce(0, trees.number(SwitchAllReduce, before, chain, to)), passed
        elif chain or before:
            yield SwitchReduce(0, trees.number(SwitchReduce, before, chain, to)), passed
    if last[0].tor is not None:
        del others[-1:]  # the worker before the chain took part in its all-reduce
    for before, chain, to in _hops(last[-1], others):
        passed = 2 if chain and to else 1
        yield Multicast(0, trees.number(Multicast, before, chain, to)), passed


def _hops(
    before: Group | None, order: Sequence[Station]
) -> Iterator[tuple[Group | None, Station, Group | None]]:
    """Each two consecutive single workers, and the chain between them; None at the ends."""
    chain: Station = ()
    for station in order:
        if station[0].tor is not None:
            chain = station
        else:
            yield before, chain, station[0]
            before, chain = station[0], ()
    if chain:
        yield before, chain, None


class _Trees:
    """The trees, each grown when it is first needed."""

    def __init__(self, ranks: Mapping[str, int]) -> None:
        self._ranks = ranks
        self._known: dict[tuple[object, ...], int] = {}
        self.grown: list[Tree] = []

    def number(
        self, kind: type[TreeOperation], before: Group | None, chain: Station, to: Group | None
    ) -> int:
        """The number of a tree. On it, the chain's workers and the worker ``before`` them are
        summed for ``to`` or, if that is None, in the last ToR. For a multicast, the values of
        ``before`` go to all others on it."""
        key = kind, before, chain, to
        if key not in self._known:
            self._known[key] = len(self.grown)
            # A multicast flows the other way, so its root is at the other end.
            ends = (chain[::-1], to, before) if kind is Multicast else (chain, before, to)
            self.grown.append(self._grow(*ends))
        return self._known[key]

    def _grow(self, path: Station, leaf: Group | None, root: Group | None) -> Tree:
        """The tree of the racks on ``path`` towards ``root``, or its last ToR, with ``leaf``."""
        below = leaf.agent if leaf else None
        parent: dict[str, str] = {}
        for group in path:
            assert group.tor is not None
            # The stream from below comes first in each rack. So all streams of one direction take
            # corresponding links, and those of the other direction and of a multicast take others
            # (see Tree.hop).
            children = group.members if below is None else (below, *group.members)
            below = joined(parent, children, group.tor)
        assert below is not None
        hosts = [host for group in path for host in group.members] + ([leaf.agent] if leaf else [])
        members = {host: self._ranks[host] for host in hosts}
        if root is None:
            return Tree(below, members, parent, SWITCHML, apart=True)
        rank = self._ranks[root.agent]
        return Tree(root.agent, members, parent | {below: root.agent}, RACK, rank, apart=True)
