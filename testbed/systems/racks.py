"""Workers by rack, and the tree that sums each rack first: shared by several systems."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from testbed.plan.trees import Rules, Tree
from testbed.topology.fabric import Fabric
from testbed.topology.paths import path


@dataclass(frozen=True)
class Group:
    """Workers that are one position of a ring; ``agent`` is the one that others communicate with.

    ``tor`` sums their packets. It is None for a worker on its own.
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


def two_levels(
    workers: Sequence[str], fabric: Fabric, root: str, protocol: Rules, root_rank: int | None = None
) -> Tree:
    """INA ToRs sum their racks, the root sums the rest; a switch with one child is left out.

    ``root`` is a switch, or a host of rank ``root_rank``. ValueError if that host is a worker.
    """
    if root in workers:
        raise ValueError(f"the server {root} is a worker too; a tree's root needs its own host")
    parent: dict[str, str] = {}
    for tor, members in by_rack(workers, fabric).items():
        sums = tor in fabric.ina and len(members) > 1
        parent |= dict.fromkeys(members, tor if sums else root)
        if sums and tor != root:
            parent[tor] = root
    ranks = {host: rank for rank, host in enumerate(workers)}
    return Tree(root, ranks, parent, protocol, root_rank)


def fullest(workers: Sequence[str], fabric: Fabric) -> str | None:
    """The INA ToR with the most workers; among equals, the one with the lowest rank."""
    racks = by_rack(workers, fabric)
    return max(
        (tor for tor in racks if tor in fabric.ina), key=lambda tor: len(racks[tor]), default=None
    )


def merging(workers: Sequence[str], fabric: Fabric) -> tuple[str, ...]:
    """The switches of which each can sum everything, and no other is nearer; empty if none can.

    For one rack with INA it is its ToR. For several racks they are INA switches above the ToRs;
    without any, the INA ToRs that would sum several workers, the fullest first.
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
