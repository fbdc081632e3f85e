"""A ring of workers and racks that takes every shard to its owner, and from there back to all.

Adjacent racks are a chain, as in `stream_ring`: each ToR adds its workers' packets to the stream of
the ToR before it. On the way back it copies the owner's packets to its workers and to that ToR.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from testbed.plan.program import Multicast, Program, SwitchReduce
from testbed.plan.trees import Tree
from testbed.protocols.rack.protocol import PROTOCOL as RACK
from testbed.systems.racks import Group, joined


class Leg(NamedTuple):
    """A part of a shard's way: from the worker ``before``, if there is one, through a ``chain`` of
    racks, which may be empty, to the worker ``to``."""

    before: str | None
    chain: tuple[Group, ...]
    to: str


def collectives(
    ring: Sequence[Group], workers: Sequence[str]
) -> tuple[tuple[Program, ...], tuple[Program, ...], list[Tree]]:
    """Each rank's reduce-scatter and all-gather, and the tree of each leg. Rank r owns chunk r.

    All ranks on a tree use it in the same order: the one in which chunks come by if all go around
    at the same speed. The trees of all-gather are those of reduce-scatter, and have the numbers
    after these.
    """
    known: dict[Leg, int] = {}
    towards: list[tuple[int, int, int]] = []
    back: list[tuple[int, int, int]] = []
    for chunk, owner in enumerate(workers):
        way = [
            (known.setdefault(leg, len(known)), bool(leg.before) + bool(leg.chain))
            for leg in _legs(ring, owner)
        ]
        for legs, moves in ((way, towards), (way[::-1], back)):
            passed = 0
            for tree, stations in legs:
                moves.append((passed, chunk, tree))
                passed += stations
    ranks = {host: rank for rank, host in enumerate(workers)}
    trees = [_tree(leg, ranks) for leg in known]
    scatter: list[list[SwitchReduce]] = [[] for _ in workers]
    gather: list[list[Multicast]] = [[] for _ in workers]
    for _, chunk, tree in sorted(towards):
        for rank in trees[tree].participants:
            scatter[rank].append(SwitchReduce(chunk, tree))
    for _, chunk, tree in sorted(back):
        for rank in trees[tree].participants:
            gather[rank].append(Multicast(chunk, len(trees) + tree))
    return tuple(map(tuple, scatter)), tuple(map(tuple, gather)), trees


def _legs(ring: Sequence[Group], owner: str) -> Iterator[Leg]:
    """The way of a chunk past all other groups to its owner, in the last one."""
    end = next(place for place, group in enumerate(ring) if owner in group.members)
    before: str | None = None
    chain: tuple[Group, ...] = ()
    for group in (*ring[end + 1 :], *ring[:end]):
        if group.tor is not None:
            chain += (group,)
            continue
        if before or chain:
            yield Leg(before, chain, group.agent)
        before, chain = group.agent, ()
    yield Leg(before, (*chain, ring[end]) if ring[end].tor else chain, owner)


def _tree(leg: Leg, ranks: Mapping[str, int]) -> Tree:
    parent: dict[str, str] = {}
    below = leg.before
    for group in leg.chain:
        assert group.tor is not None
        children = [each for each in (below, *group.members) if each not in (None, leg.to)]
        below = joined(parent, children, group.tor)
    assert below is not None
    parent[below] = leg.to
    members = {host: ranks[host] for host in parent if host in ranks}
    return Tree(leg.to, members, parent, RACK, ranks[leg.to])
