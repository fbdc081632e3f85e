"""Flare: a tree of switches at any tier sums what passes, dense or sparse; int32 here.

A P4 program can do the dense part: blocks of integers, a bitmap of the children that have been
counted, trees of any depth, and repetition after a host's timeout. Of the sparse part, it can keep
pairs of an index and a value in a hash table without a loop. For this, hosts put each index into
its entry, and resend each pair whose entry another index had. Everything else needs Flare's
hardware, processors in the switch: floats, which the P4 targets here do not add; probing and a
stash for pairs that collide, with locks, and flushes of several packets, so that a link carries
only the pairs from below it; and the choice among one buffer, several, and a tree of buffers for a
sum.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import TypeAlias

from testbed.plan.program import Plan, SwitchAllReduce
from testbed.protocols.flare.protocol import PROTOCOL as SPARSE
from testbed.protocols.switchml.protocol import PROTOCOL as DENSE
from testbed.systems import ring
from testbed.systems.racks import Ways, by_rack, chosen, merged, way
from testbed.systems.system import Assignment, System, WithWindow
from testbed.topology.fabric import Fabric

Racks: TypeAlias = Mapping[str, tuple[str, ...]]

_MOST_AS_PAIRS = 0.4
"""The share of non-zero values up to which pairs are sent. A packet has half as many pairs as
values, and the fullest entry decides: from about 0.45 on, pairs of a large tensor take more packets
than all its values, and from 0.3 on those of one whose slots have only some twenty packets each."""


def plan(job: Assignment, fabric: Fabric) -> Plan:
    """One tree, or ring all-reduce if no switch can sum. Pairs are sent if few enough values
    are not zero."""
    racks = by_rack(job.workers, fabric)
    able = {
        root: {tor: way(fabric, tor, root) for tor in racks}
        for root in fabric.switches
        if root in fabric.ina
    }
    sizes = {root: _size(ways, racks, fabric) for root, ways in able.items()}
    root = chosen(sizes, job.workers, fabric)
    if root is None:
        return replace(ring.plan(replace(job, options={}), fabric), system="flare")
    protocol = SPARSE if job.union < _MOST_AS_PAIRS else DENSE
    return Plan(
        system="flare",
        hosts=job.workers,
        workers=len(job.workers),
        chunks=1,
        programs=((SwitchAllReduce(chunk=0, tree=0),),) * len(job.workers),
        trees=(merged(able[root], job.workers, fabric, protocol),),
    )


def _size(ways: Ways, racks: Racks, fabric: Fabric) -> tuple[int, int]:
    """The number of links that a tree's streams take, and of the switches that sum each worker's
    stream, both added up."""
    streams = {edge for way in ways.values() for edge in pairwise(way)}
    links = sum(fabric.distance(*edge) for edge in streams)
    links += sum(
        len(members) * (1 + fabric.distance(tor, ways[tor][0])) for tor, members in racks.items()
    )
    return links, sum(len(members) * len(ways[tor]) for tor, members in racks.items())


SYSTEM = System(
    name="flare",
    title="Flare",
    colour="#b5179e",
    marker="d",
    citation="De Sensi et al., Flare: Flexible In-Network Allreduce, SC 2021; arXiv 2106.15565",
    published=(
        "Switches at any tier of a fat-tree sum packets on a tree; a manager of the network "
        "installs it.",
        "A switch knows by a bitmap which children it has counted, and hosts send again after a "
        "timeout.",
        "Operators, types and sparse data are programs for processors in the switch (PsPIN).",
    ),
    reading=(
        "The paper's text was not available to us; its abstract, and handlers that are probably "
        "its, were. The second of the rules above is from memory.",
        "Values are int32: the P4 targets cannot add floats. The choice among buffers in a switch "
        "is left out.",
        "Dense, it is SwitchML's slots, versions and answers: the same memory holds a block's sum "
        "and the children counted.",
        "Sparse, packets have pairs of an index and a value: if fewer than "
        f"{_MOST_AS_PAIRS} of the values are expected not to be zero at some worker, which is "
        "1 - (1 - D)^N of them where each is independent with density D. Otherwise it is dense. "
        "Pairs win up to about 0.45 of a large tensor's values, and up to 0.3 where a slot has "
        "only some twenty packets of it.",
        "An index that finds another in its entry of a switch's hash table stays at its host, not "
        "in a stash. So all links of the tree carry as many packets as the root sums; in Flare "
        "their number grows towards the root.",
        "The tree is the one whose streams take the fewest links and, among equals, pass the "
        "fewest switches that sum; among those, jobs that share racks have different roots and "
        "links. Every INA switch on the way sums, unless it has a single child.",
        "If no switch has INA, workers run ring all-reduce.",
    ),
    servers=(0, 0),
    aggregates=True,
    sparse="values",
    plan=plan,
    options=WithWindow,
)
