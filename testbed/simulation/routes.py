"""What each transfer puts on which links, and how long its last packet is on the way.

A way is chosen as in the closed form and in the emulator: hosts leave it to ECMP, a tree's
switches share the equally short ways among their children.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from hashlib import blake2b

import numpy as np

from testbed.dataplane import wire
from testbed.plan.program import Multicast, SwitchAllReduce, SwitchReduce, TreeOperation
from testbed.plan.trees import Tree
from testbed.simulation.fairness import Floats
from testbed.simulation.scenario import Assumptions
from testbed.topology.fabric import Fabric

Ends = tuple[str, str]
Load = dict[int, float]

_SEGMENT = wire.MTU + 14
"""Bytes of a full TCP segment on a link."""


@dataclass
class Demand:
    """What a byte of a transfer costs.

    Attributes:
        load: bytes on each link by number, headers included; a switch that may aggregate only so
            much counts as a link.
        receipts: bytes of acknowledgements, which take what they need.
        latency_s: from the last byte's departure to its arrival.
        most: bytes/s that a window lets through.
    """

    load: Load = field(default_factory=lambda: defaultdict(float))
    receipts: Load = field(default_factory=lambda: defaultdict(float))
    latency_s: float = 0.0
    most: float = float("inf")


class Routes:
    """The links of ``fabric``, numbered, and the ways over them."""

    def __init__(self, fabric: Fabric, assumptions: Assumptions) -> None:
        self._fabric, self._assumptions = fabric, assumptions
        self.ends: list[Ends] = []
        self._rate: dict[Ends, float] = {}
        for link in fabric.links:
            for ends in ((link.a, link.b), (link.b, link.a)):
                self.ends.append(ends)
                self._rate[ends] = link.rate / 8
        self._number = {ends: number for number, ends in enumerate(self.ends)}
        self._processor = {
            switch: len(self.ends) + place for place, switch in enumerate(fabric.capacity)
        }
        self.capacity: Floats = np.array(
            [*self._rate.values(), *(rate / 8 for rate in fabric.capacity.values())]
        )
        self._split = cache(self._split_evenly)

    def stream(self, source: str, to: str, flow: str) -> Demand:
        """TCP from host to host: the stream, and its acknowledgements on the way back."""
        demand = Demand()
        there = self._way(source, to, flow)
        _add(demand.load, there, 1 / wire.TCP_EFFICIENCY)
        _add(demand.receipts, self._way(to, source, flow), wire.TCP_ACK_SHARE)
        demand.latency_s = self._latency(source, to, _SEGMENT)[1]
        return demand

    def on_tree(
        self, tree: Tree, kind: type[TreeOperation], window: int | None, flow: str
    ) -> Demand:
        """An operation on a tree: one stream for each of its edges, up and down at once."""
        demand = Demand()
        up = demand.receipts if kind is Multicast else demand.load
        down = demand.receipts if kind is SwitchReduce else demand.load
        switches = frozenset(tree.switches)
        for child, parent in tree.parent.items():
            for source, to, load in ((child, parent, up), (parent, child, down)):
                per_byte = (
                    wire.INA_ACK_SHARE if load is demand.receipts else 1 / wire.INA_EFFICIENCY
                )
                if source in switches and source != to:
                    hop = tree.hop(child, self._fabric.next_hops(source, to))
                    load[self._number[source, hop]] += per_byte
                    source = hop
                _add(load, self._way(source, to, flow), per_byte)
            if kind is not Multicast and parent in self._processor:
                demand.load[self._processor[parent]] += 1.0
        there, after = self._depth(tree)
        demand.latency_s = there + after if kind is SwitchAllReduce else after
        if window is not None and there > 0:
            demand.most = window * wire.VALUES * 4 / (2 * there)
        return demand

    def _depth(self, tree: Tree) -> tuple[float, float]:
        """`_latency` of the longest way up ``tree``."""
        edges = {
            child: self._latency(child, parent, wire.FRAME) for child, parent in tree.parent.items()
        }
        above = {tree.root: 0.0}
        for node in (*reversed(tree.switches), *tree.rank_of):
            if node != tree.root:
                above[node] = above[tree.parent[node]] + edges[node][0]
        farthest = max(tree.rank_of, key=above.__getitem__)
        whole, after = edges.get(farthest, (0.0, 0.0))
        return above[farthest], above[farthest] - whole + after

    def _latency(self, source: str, to: str, frame: int) -> tuple[float, float]:
        """How long a frame takes on an idle fabric, and the same after it has left the source."""
        whole = after = 0.0
        at = source
        while at != to:
            hop = self._fabric.next_hops(at, to)[0]
            sending = frame / self._rate[at, hop]
            whole += sending + self._assumptions.hop_s
            after += self._assumptions.hop_s + (sending if at != source else 0.0)
            at = hop
        return whole, after

    def _way(self, source: str, to: str, flow: str) -> Iterable[tuple[int, float]]:
        """Links, and the share of the flow on each."""
        if source == to:
            return ()
        if self._assumptions.ecmp == "even":
            return self._split(source, to).items()
        return self._hashed(source, to, flow)

    def _hashed(self, source: str, to: str, flow: str) -> list[tuple[int, float]]:
        way, at = [], source
        while at != to:
            hops = self._fabric.next_hops(at, to)
            hop = hops[0] if len(hops) == 1 else hops[self._hash(at, source, to, flow) % len(hops)]
            way.append((self._number[at, hop], 1.0))
            at = hop
        return way

    def _hash(self, at: str, source: str, to: str, flow: str) -> int:
        text = f"{self._assumptions.seed}/{at}/{source}/{to}/{flow}"
        return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")

    def _split_evenly(self, source: str, to: str) -> Mapping[int, float]:
        hops = self._fabric.next_hops(source, to)
        way: Load = defaultdict(float)
        for hop in hops:
            way[self._number[source, hop]] += 1 / len(hops)
            if hop != to:
                _add(way, self._split(hop, to).items(), 1 / len(hops))
        return way


def _add(load: Load, way: Iterable[tuple[int, float]], amount: float) -> None:
    for link, share in way:
        load[link] += share * amount
