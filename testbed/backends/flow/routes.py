"""The load of each transfer on the links, and the latency of its last packet.

Paths are chosen as in the closed form and in the emulator: the flows of hosts follow ECMP unless
the plan routes them; a tree's switches spread their children over the equally short paths.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import blake2b
from itertools import pairwise

import numpy as np

from testbed.backends.flow.fairness import Floats
from testbed.backends.flow.scenario import Assumptions, Job
from testbed.plan.program import Multicast, SwitchAllReduce, SwitchReduce, TreeOperation
from testbed.plan.trees import Tree
from testbed.topology.fabric import Fabric
from testbed.topology.framing import framing
from testbed.topology.paths import EvenPaths, path

Load = dict[int, float]


@dataclass
class Demand:
    """What a byte of a transfer costs.

    Attributes:
        load: bytes on each link, by its number, headers included; a switch with a limited
            aggregation rate is a link, too.
        receipts: bytes of acknowledgements on each link, which take what they need.
        latency_s: from the last byte's departure to its arrival.
        most: bytes/s that the window allows.
    """

    load: Load = field(default_factory=lambda: defaultdict(float))
    receipts: Load = field(default_factory=lambda: defaultdict(float))
    latency_s: float = 0.0
    most: float = float("inf")


class Links:
    """The links of a fabric, and its switches with a limited aggregation rate, numbered.

    The ``ends`` of a switch are (switch, switch). ``capacity`` is in bytes/s.
    """

    def __init__(self, fabric: Fabric) -> None:
        rates = {
            ends: link.rate
            for link in fabric.links
            for ends in ((link.a, link.b), (link.b, link.a))
        } | {(switch, switch): rate for switch, rate in fabric.capacity.items()}
        self.ends = tuple(rates)
        self.number = {ends: number for number, ends in enumerate(self.ends)}
        self.capacity: Floats = np.array([rate / 8 for rate in rates.values()])


class Ways:
    """The paths of one job's transfers; ``name`` distinguishes its flows from other jobs'."""

    def __init__(
        self, fabric: Fabric, links: Links, assumptions: Assumptions, job: Job, name: str
    ) -> None:
        self._fabric, self._assumptions, self._job, self._name = fabric, assumptions, job, name
        self.framing = framing(fabric)
        self._number, self._capacity = links.number, links.capacity
        self._even = EvenPaths(fabric, job.plan.routes)
        self._split = cache(self._split_evenly)

    def stream(self, source: int, to: int) -> Demand:
        """TCP from rank to rank: the stream, and acknowledgements in the other direction."""
        here, there = self._job.plan.hosts[source], self._job.plan.hosts[to]
        demand = Demand()
        _add(demand.load, self.way(here, there), 1 / self.framing.tcp_efficiency)
        _add(demand.receipts, self.way(there, here), self.framing.tcp_ack_share)
        _, demand.latency_s = self._latency(here, there, self.framing.full_frame)
        return demand

    def on_tree(self, operation: TreeOperation) -> Demand:
        """One stream on each of the tree's edges, up and down at the same time."""
        tree, demand = self._job.plan.trees[operation.tree], Demand()
        up = demand.receipts if isinstance(operation, Multicast) else demand.load
        down = demand.receipts if isinstance(operation, SwitchReduce) else demand.load
        sent = self._job.plan.sent
        stream = sent / self.framing.ina_efficiency
        receipt = sent * self.framing.ina_ack_share
        switches = frozenset(tree.switches)
        for child, parent in tree.parent.items():
            for source, to, load in ((child, parent, up), (parent, child, down)):
                per_byte = receipt if load is demand.receipts else stream
                if source in switches and (source, to) not in self._job.plan.routes:
                    hop = tree.hop(child, self._fabric.next_hops(source, to), source == parent)
                    load[self._number[source, hop]] += per_byte
                    source = hop
                _add(load, self.way(source, to), per_byte)
        if not isinstance(operation, Multicast):
            for parent in switches & self._fabric.capacity.keys():
                demand.load[self._number[parent, parent]] += sent * len(tree.children(parent))
        whole, after = self._depth(tree)
        demand.latency_s = whole + after if isinstance(operation, SwitchAllReduce) else after
        if self._job.window is not None and whole > 0:
            window = self._job.window * self.framing.values * 4
            demand.most = window * self._assumptions.scale / (2 * whole) / sent
        return demand

    def _depth(self, tree: Tree) -> tuple[float, float]:
        """The `_latency` of the longest path up ``tree``."""
        edges = {
            child: self._latency(child, parent, self.framing.frame)
            for child, parent in tree.parent.items()
        }
        above = {tree.root: 0.0}
        for node in (*reversed(tree.switches), *tree.rank_of):
            if node != tree.root:
                above[node] = above[tree.parent[node]] + edges[node][0]
        farthest = max(tree.rank_of, key=above.__getitem__)
        whole, after = edges.get(farthest, (0.0, 0.0))
        return above[farthest], above[farthest] - whole + after

    def _latency(self, source: str, to: str, frame: int) -> tuple[float, float]:
        """How long a frame takes on an idle fabric: in all, and after it has left the source;
        scaled."""
        whole = first = 0.0
        for link in pairwise(path(self._fabric, source, to)):
            sending = frame / float(self._capacity[self._number[link]])
            whole += sending + self._assumptions.hop_s
            first = first or sending
        scale = self._assumptions.scale
        return whole * scale, (whole - first) * scale

    def way(self, source: str, to: str) -> Iterable[tuple[int, float]]:
        """The links of a flow, and its share on each."""
        if source == to:
            return ()
        if self._assumptions.ecmp == "even":
            return self._split(source, to).items()
        return self._hashed(source, to)

    def _hashed(self, source: str, to: str) -> list[tuple[int, float]]:
        def hashed(at: str, hops: Sequence[str]) -> str:
            return hops[self._hash(at, source, to) % len(hops)]

        route = self._job.plan.routes.get((source, to))
        nodes = route or path(self._fabric, source, to, hashed)
        return [(self._number[link], 1.0) for link in pairwise(nodes)]

    def _hash(self, at: str, source: str, to: str) -> int:
        text = f"{self._assumptions.seed}/{at}/{self._name}/{source}/{to}"
        return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")

    def _split_evenly(self, source: str, to: str) -> Mapping[int, float]:
        return {self._number[link]: share for link, share in self._even.shares(source, to).items()}


def _add(load: Load, way: Iterable[tuple[int, float]], amount: float) -> None:
    for link, share in way:
        load[link] += share * amount
