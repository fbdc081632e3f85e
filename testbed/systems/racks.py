"""Workers by rack, and the tree that sums each rack first: shared by several systems."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from typing import TypeAlias

from testbed.plan.trees import Rules, Tree
from testbed.topology.fabric import Fabric
from testbed.topology.paths import path

Cost: TypeAlias = int | tuple[int, int]

Ways: TypeAlias = Mapping[str, tuple[str, ...]]
"""For each rack's ToR, the aggregating switches towards the root, which is the last one."""


@dataclass(frozen=True)
class Group:
    """Workers that are one position of a ring; ``agent`` is the worker that others communicate
    with.

    ``tor`` sums their packets. It is None for a single worker.
    """

    members: tuple[str, ...]
    agent: str
    tor: str | None = None


def by_rack(workers: Sequence[str], fabric: Fabric) -> dict[str, tuple[str, ...]]:
    """Each ToR's workers in rank order; racks in the order of their lowest ranks."""
    racks: dict[str, tuple[str, ...]] = {}
    for host in workers:
        tor = fabric.tor_of(host)
        racks[tor] = (*racks.get(tor, ()), host)
    return racks


def dealt(workers: Sequence[str], fabric: Fabric) -> tuple[str, ...]:
    """One worker of each rack in turn, until none is left."""
    turns = zip_longest(*by_rack(workers, fabric).values())
    return tuple(host for turn in turns for host in turn if host is not None)


def joined(parent: dict[str, str], children: Sequence[str], tor: str) -> str:
    """Let ``tor`` sum ``children``. Returns the node whose stream goes on: with one child a ToR has
    nothing to add, and is left out."""
    if len(children) == 1:
        return children[0]
    parent |= dict.fromkeys(children, tor)
    return tor


def check_apart(servers: Sequence[str], workers: Collection[str]) -> None:
    """Raise ValueError if a server, which is a tree's root, is on a worker's host."""
    if both := [server for server in servers if server in workers]:
        raise ValueError(
            f"the server {both[0]} is a worker too; a tree's root needs its own host: leave out"
            " colocated, or name other servers"
        )


def two_levels(
    workers: Sequence[str],
    fabric: Fabric,
    root: str,
    protocol: Rules,
    root_rank: int | None = None,
    number: int = 0,
) -> Tree:
    """INA ToRs sum their racks, the root sums the rest; a switch with one child is left out.

    ``root`` is a switch, or a host of rank ``root_rank``. Trees of a job that have another
    ``number`` take other links. ValueError if that host is a worker.
    """
    check_apart([root], workers)
    parent: dict[str, str] = {}
    for tor, members in by_rack(workers, fabric).items():
        sums = tor in fabric.ina and len(members) > 1
        parent |= dict.fromkeys(members, tor if sums else root)
        if sums and tor != root:
            parent[tor] = root
    ranks = {host: rank for rank, host in enumerate(workers)}
    begins = turn(parent, jobs_before(workers, fabric) + number, fabric)
    return Tree(root, ranks, parent, protocol, root_rank, turn=begins)


def way(fabric: Fabric, tor: str, root: str) -> tuple[str, ...]:
    """The INA switches from ``tor`` to ``root``; ``root``, the last, need not be one.

    A switch has one way to the root. Where it has a choice, the way leads over INA switches, so
    that streams meet as early as possible.
    """
    summing = []
    node = tor
    while node != root:
        if node in fabric.ina:
            summing.append(node)
        hops = fabric.next_hops(node, root)
        node = next((hop for hop in hops if hop in fabric.ina), hops[0])
    return (*summing, root)


def merged(ways: Ways, workers: Sequence[str], fabric: Fabric, protocol: Rules) -> Tree:
    """The tree of ``ways``, at any tier, without switches that would have a single child."""
    parent = {child: above for each in ways.values() for child, above in pairwise(each)}
    parent |= {host: ways[fabric.tor_of(host)][0] for host in workers}
    children: dict[str, set[str]] = {}
    for child, above in parent.items():
        children.setdefault(above, set()).add(child)
    for switch in [node for node in parent if len(children.get(node, ())) == 1]:
        (child,), above = children[switch], parent.pop(switch)
        parent[child] = above
        children[above] = children[above] - {switch} | {child}
    ranks = {host: rank for rank, host in enumerate(workers)}
    (root,) = {each[-1] for each in ways.values()}
    parent = {host: parent[host] for host in workers} | parent
    begins = turn(parent, jobs_before(workers, fabric), fabric)
    return Tree(root, ranks, parent, protocol, turn=begins)


def tree_to(top: str, workers: Sequence[str], fabric: Fabric, protocol: Rules) -> Tree:
    """The tree to ``top`` on which every INA switch on the way sums, unless it has one child."""
    ways = {tor: way(fabric, tor, top) for tor in by_rack(workers, fabric)}
    return merged(ways, workers, fabric, protocol)


def turn(parent: Mapping[str, str], first: int, fabric: Fabric) -> int:
    """The turn with which a tree's first stream that has a choice of links takes number ``first``,
    however many siblings without a choice come before it."""
    places: dict[str, int] = {}
    for child, above in parent.items():
        place = places[above] = places.get(above, -1) + 1
        if max(len(fabric.next_hops(*ends)) for ends in ((child, above), (above, child))) > 1:
            return first - place
    return first


def chosen(costs: Mapping[str, Cost], workers: Sequence[str], fabric: Fabric) -> str | None:
    """The switch of least cost; among equals, another one for each job that shares racks with
    others. None if there are no switches.

    With the same root for all jobs, that switch's links would carry the streams of all.
    """
    least = min(costs.values(), default=None)
    equals = [switch for switch, cost in costs.items() if cost == least]
    if not equals:
        return None
    return equals[jobs_before(workers, fabric) % len(equals)]


def jobs_before(workers: Sequence[str], fabric: Fabric) -> int:
    """How many jobs share racks with this one and come before it, if each has as many workers
    there: that shows in the place of its first worker in the rack."""
    for tor, members in by_rack(workers, fabric).items():
        rack = [host for host in fabric.hosts if fabric.tor_of(host) == tor]
        return rack.index(members[0]) // len(members)
    return 0


def fullest(workers: Sequence[str], fabric: Fabric) -> str | None:
    """The INA ToR with the most workers; see `chosen`."""
    racks = by_rack(workers, fabric)
    costs = {tor: -len(members) for tor, members in racks.items() if tor in fabric.ina}
    return chosen(costs, workers, fabric)


def root(workers: Sequence[str], fabric: Fabric) -> str | None:
    """The switch that sums everything for a job with one tree, of those that `merging` names; None
    if none can. See `chosen`."""
    tops = merging(workers, fabric)
    if tops and tops[0] in fabric.tors:
        return tops[0]
    return chosen(dict.fromkeys(tops, 0), workers, fabric)


def merging(workers: Sequence[str], fabric: Fabric) -> tuple[str, ...]:
    """The nearest of the switches that can each sum everything; empty if none can.

    For one rack with INA, that is its ToR. For several racks, they are INA switches above the ToRs
    or, if there are none, the INA ToRs that would sum several workers, the fullest first.
    """
    racks = by_rack(workers, fabric)
    tops = [each for each in fabric.switches if each in fabric.ina and each not in fabric.tors]
    if tops and not (len(racks) == 1 and racks.keys() <= fabric.ina):
        remoteness = {each: _remoteness(fabric, racks, each) for each in tops}
        least = min(remoteness.values())
        return tuple(each for each in tops if remoteness[each] == least)
    top = fullest(workers, fabric)
    summing = (each for each in racks if each in fabric.ina and len(racks[each]) > 1)
    return () if top is None else tuple(dict.fromkeys((top, *summing)))


def _remoteness(fabric: Fabric, tors: Collection[str], switch: str) -> tuple[int, int]:
    """The number of links from all ``tors`` to ``switch``, and from the furthest ToR."""
    links = [len(path(fabric, tor, switch)) - 1 for tor in tors]
    return sum(links), max(links)
