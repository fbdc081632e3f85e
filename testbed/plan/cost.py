"""The closed form: how long an iteration takes if links and steps' latency are the only limits.

Every transfer of the plan is routed over the fabric, ECMP sets sharing evenly; the busiest
link, per byte of gradient, sets the pace of buckets that follow one another. A bucket alone takes
longer where its phases load different links: then it pays for the busiest link of each.
For the textbook systems on a fabric without oversubscription this is the textbook formula:
N·M/B for one parameter server, 2(N-1)/N·M/B for a ring, M/B for aggregation on the way. A few
flows that ECMP's hash happens to put on one link are slower than an even share says.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeAlias

from testbed.plan import chain
from testbed.plan.chain import Transfer
from testbed.plan.program import Multicast, Plan, SwitchReduce, TreeOperation
from testbed.topology.fabric import Fabric
from testbed.topology.framing import framing
from testbed.workload.replay import Need, stalled_s

Load = dict[tuple[str, str], float]

Phase: TypeAlias = list[tuple[Transfer | TreeOperation, Fraction]]
"""What happens side by side, with what part of a bucket goes through it."""


def link_loads(plan: Plan, fabric: Fabric) -> Load:
    """Bytes on each directed link (a, b), headers included, per byte of gradient synchronised.

    A switch s that can aggregate only so much is a link (s, s), for the gradients that it sums.
    """
    return _sum(_phase_loads(plan, fabric))


def _phase_loads(plan: Plan, fabric: Fabric) -> list[Load]:
    loads = _Loads(plan, fabric)
    return [loads.of(phase) for phase in _phases(plan)]


def _phases(plan: Plan) -> list[Phase]:
    """The plan's stretches or, where it has none, the steps of its chain."""
    if not plan.stretches:
        return [[(what, plan.share(what.chunk)) for what in step] for step in chain.steps(plan)]
    return [
        [
            (Transfer(0, *hop) if isinstance(hop, tuple) else hop, ring.rounds * ring.share)
            for ring in stretch
            for hop in ring.hops
        ]
        for stretch in plan.stretches
    ]


def _sum(loads: Iterable[Load]) -> Load:
    total: defaultdict[tuple[str, str], float] = defaultdict(float)
    for load in loads:
        for link, amount in load.items():
            total[link] += amount
    return dict(total)


class _Loads:
    """Bytes on links for transfers of ``plan``."""

    def __init__(self, plan: Plan, fabric: Fabric) -> None:
        self._plan, self._fabric, self._framing = plan, fabric, framing(fabric)
        self._ways: dict[tuple[str, str], Load] = {}

    def of(self, phase: Phase) -> Load:
        load: defaultdict[tuple[str, str], float] = defaultdict(float)
        hosts = self._plan.hosts
        for what, share in phase:
            if isinstance(what, TreeOperation):
                self._on_tree(what, float(share), load)
            else:
                # TCP: the stream, and its acknowledgements on the way back.
                source, to = hosts[what.source], hosts[what.to]
                self._add(source, to, float(share) / self._framing.tcp_efficiency, load)
                self._add(to, source, float(share) * self._framing.tcp_ack_share, load)
        return dict(load)

    def _on_tree(
        self, operation: TreeOperation, share: float, load: defaultdict[tuple[str, str], float]
    ) -> None:
        tree = self._plan.trees[operation.tree]
        stream = share / self._framing.ina_efficiency
        receipts = share * self._framing.ina_ack_share
        up = receipts if isinstance(operation, Multicast) else stream
        down = receipts if isinstance(operation, SwitchReduce) else stream
        for parent in tree.parent.values():
            if parent in self._fabric.capacity and not isinstance(operation, Multicast):
                load[parent, parent] += share
        for child, parent in tree.parent.items():
            for source, to, amount in ((child, parent, up), (parent, child, down)):
                # Where a tree's switches send, the tree chooses the way; hosts leave it to ECMP.
                if source in tree.switches and source != to:
                    hop = tree.hop(child, self._fabric.next_hops(source, to))
                    load[source, hop] += amount
                    self._add(hop, to, amount, load)
                else:
                    self._add(source, to, amount, load)

    def _add(
        self, source: str, to: str, amount: float, load: defaultdict[tuple[str, str], float]
    ) -> None:
        if (source, to) in self._plan.pins:
            tor, via = self._fabric.tor_of(source), self._plan.pins[source, to]
            load[source, tor] += amount
            load[tor, via] += amount
            source = via
        for link, share in self._way(source, to).items():
            load[link] += share * amount

    def _way(self, source: str, to: str) -> Load:
        """What part of a stream takes which link: next hops share evenly."""
        if (source, to) not in self._ways:
            hops = self._fabric.next_hops(source, to)
            way = {(source, hop): 1 / len(hops) for hop in hops}
            for hop in hops:
                for link, share in self._way(hop, to).items():
                    way[link] = way.get(link, 0.0) + share / len(hops)
            self._ways[source, to] = way
        return self._ways[source, to]


def seconds_per_byte(plan: Plan, fabric: Fabric) -> float:
    """Seconds the busiest link needs per byte of gradient, on the real cluster's rates."""
    return _busiest(link_loads(plan, fabric), fabric)


def _busiest(loads: Load, fabric: Fabric) -> float:
    return max((load * 8 / _rate(fabric, *link) for link, load in loads.items()), default=0.0)


def _rate(fabric: Fabric, a: str, b: str) -> float:
    return fabric.capacity[a] if a == b else fabric.link(a, b).rate


@dataclass(frozen=True)
class Expected:
    """One iteration in closed form: its length, and the part that compute does not hide (s).

    ``gap_s`` is what each worker must begin later than the one before it, for this to hold.
    """

    iteration_s: float
    exposed_s: float
    gap_s: float = 0.0


def iteration(
    plan: Plan,
    fabric: Fabric,
    pieces: Sequence[tuple[float, float]],
    compute_s: float,
    step_s: float = 0.0,
    steps: int = 0,
    least_pace: float = 0.0,
) -> Expected:
    """One iteration of ``plan`` on an otherwise idle fabric.

    ``pieces`` are (ready_s, bytes) of the units in order, which follow one another on the
    busiest link. A unit is through that link no earlier than the one before, and ends when the
    phases that load other links are over too, and ``steps`` transfers that wait for one another
    have paid ``step_s`` each. Units do so side by side. ``least_pace`` is what a byte of gradient
    takes at least, if a link is known to carry more than its even share (s).

    A second stage is units of the iteration before, ready at 0: where U of M bytes are deferred
    and the rest is ready after compute T, that is T + (M-U)·pace + max(0, U·pace - T).

    Workers that update parameters without a barrier, evenly spaced, do not meet: an iteration
    lasts as long as it does for one worker alone, unless a round of everyone's transfers needs
    longer. Workers that begin together spread out by themselves, but only after some iterations.
    Who takes turns pushes nothing before all of it is ready.
    """
    if plan.consistency is None or plan.consistency.is_barrier:
        finish = max(compute_s, _end(plan, fabric, pieces, steps * step_s, least_pace))
        return Expected(finish, finish - compute_s)
    if plan.consistency.turns:
        last = max((ready_s for ready_s, _ in pieces), default=0.0)
        pieces = [(last, size) for _, size in pieces]
    alone = max(
        _end(_only(plan, worker), fabric, pieces, steps * step_s) for worker in range(plan.workers)
    )
    pace = max(least_pace, seconds_per_byte(plan, fabric))
    together = pace * sum(size for _, size in pieces)
    finish = max(compute_s, alone, together)
    return Expected(finish, finish - compute_s, finish / plan.workers)


def replayed(
    plan: Plan,
    fabric: Fabric,
    pieces: Sequence[tuple[float, float]],
    buckets: Sequence[int],
    forward: Sequence[Need],
    compute_s: float,
    paces: Sequence[float],
    step_s: float = 0.0,
    steps: int = 0,
    least_pace: float = 0.0,
) -> tuple[Expected, ...]:
    """Iterations of which each begins as soon as the one before has computed.

    Its ``forward`` pass waits on the way for the sums of the iteration before, bucket by bucket.
    It lasts from that one's last sum to its own. ``buckets``: of each piece, whose times and order
    are as in `iteration`; ``paces``: by what each iteration's times are multiplied. What is ready
    at 0 is so once all before it is summed.

    Pieces are summed one after another here. Where ranks have many under way at once, as a ring
    without credit has, those that the forward pass needs first come later: then it is a bound.
    """
    seconds = _seconds(plan, fabric, least_pace)
    found: list[Expected] = []
    start = over = 0.0
    arrived: dict[int, float] = {}
    for factor in paces:
        stalled = stalled_s(forward, start, arrived, factor)
        ready = [
            (start + stalled + ready_s * factor if ready_s > 0 else over, size)
            for ready_s, size in pieces
        ]
        start += stalled + compute_s * factor
        for bucket, end in zip(buckets, _ends(seconds, ready, steps * step_s), strict=True):
            arrived[bucket] = end
        before, over = over, max(start, *arrived.values())
        found.append(Expected(over - before, max(0.0, over - before - compute_s * factor)))
    return tuple(found)


def _end(
    plan: Plan,
    fabric: Fabric,
    pieces: Sequence[tuple[float, float]],
    chain_s: float,
    least_pace: float = 0.0,
) -> float:
    return max(_ends(_seconds(plan, fabric, least_pace), pieces, chain_s), default=0.0)


def _seconds(plan: Plan, fabric: Fabric, least_pace: float) -> tuple[float, float]:
    """A byte's time on the busiest link, and that of a byte alone."""
    loads = _phase_loads(plan, fabric)
    pace = max(least_pace, _busiest(_sum(loads), fabric))
    return pace, max(pace, sum(_busiest(phase, fabric) for phase in loads))


def _ends(
    seconds: tuple[float, float], pieces: Sequence[tuple[float, float]], chain_s: float
) -> Iterator[float]:
    """When each of the pieces is summed."""
    pace, alone = seconds
    through = end = 0.0
    for ready_s, size in pieces:
        through = max(ready_s, through) + size * pace
        end = max(through + size * (alone - pace) + chain_s, end + size * pace)
        yield end


def _only(plan: Plan, worker: int) -> Plan:
    """The plan of updates as if ``worker`` were the only one."""
    return replace(
        plan,
        programs=tuple(ops if rank == worker else () for rank, ops in enumerate(plan.programs)),
    )
