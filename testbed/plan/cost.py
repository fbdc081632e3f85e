"""The closed form: how long an iteration takes if links and the latency of steps are the only
limits.

Every transfer of the plan is routed over the fabric, and ECMP sets share evenly. The busiest link,
per byte of gradient, sets the pace of consecutive buckets. A single bucket takes longer if its
phases load different links: then the busiest link of each phase counts. For the textbook systems on
a fabric without oversubscription, this is the textbook formula: N·M/B for one parameter server,
2(N-1)/N·M/B for a ring, M/B for in-network aggregation. Flows that ECMP's hash happens to put on
one link are slower than the even share.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, cached_property
from typing import TypeAlias

from testbed.plan import chain, overlap
from testbed.plan.chain import Transfer
from testbed.plan.program import Multicast, Plan, SwitchReduce, TreeOperation
from testbed.plan.stages import Stages, stretches
from testbed.topology.fabric import Fabric
from testbed.topology.framing import framing
from testbed.topology.paths import EvenPaths, Flow
from testbed.workload.replay import Computation, Need, stalled_s

Load = dict[tuple[str, str], float]

Phase: TypeAlias = list[tuple[Transfer | TreeOperation, Fraction]]
"""Concurrent transfers, each with the part of a bucket that it carries."""


def link_loads(plan: Plan, fabric: Fabric) -> Load:
    """Bytes on each directed link (a, b), headers included, per byte of gradient synchronised.

    A switch s with a limited aggregation rate counts as a link (s, s) for the gradients that it
    sums.
    """
    loads = _Loads(plan, fabric)
    return _sum(loads.of(phase) for phase in _phases(plan))


def flows(plan: Plan) -> dict[Flow, float]:
    """The part of the gradient that each node sends to another, without receipts.

    On trees, nodes are neighbours on the tree: a node sends to its parent and its children.
    """
    found: defaultdict[Flow, float] = defaultdict(float)
    for phase in _phases(plan):
        for what, share in phase:
            if not isinstance(what, TreeOperation):
                found[plan.hosts[what.source], plan.hosts[what.to]] += float(share)
                continue
            sent = float(share) * plan.sent
            for edge in plan.trees[what.tree].parent.items():
                if not isinstance(what, Multicast):
                    found[edge] += sent
                if not isinstance(what, SwitchReduce):
                    found[edge[::-1]] += sent
    return dict(found)


def _phases(plan: Plan) -> list[Phase]:
    """The plan's stages or, where it has none, the steps of its chain."""
    if plan.sharding is not None:
        return [
            [(what, times * share) for what, share in phase]
            for each, times in plan.collectives
            for phase in _phases(each)
        ]
    found = stretches(plan)
    if not found:
        return [[(what, plan.share(what.chunk)) for what in step] for step in chain.steps(plan)]
    return [
        [
            (Transfer(0, *hop) if isinstance(hop, tuple) else hop, ring.rounds * ring.share)
            for ring in stage
            for hop in ring.hops
        ]
        for stage in found
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
        self._paths = EvenPaths(fabric, plan.routes)

    def of(self, phase: Phase) -> Load:
        load: defaultdict[tuple[str, str], float] = defaultdict(float)
        hosts = self._plan.hosts
        for what, share in phase:
            if isinstance(what, TreeOperation):
                self._on_tree(what, float(share), load)
            else:
                # TCP: the stream, and its acknowledgements in the other direction.
                source, to = hosts[what.source], hosts[what.to]
                self._add(source, to, float(share) / self._framing.tcp_efficiency, load)
                self._add(to, source, float(share) * self._framing.tcp_ack_share, load)
        return dict(load)

    def seconds(self, what: Transfer | TreeOperation) -> list[tuple[tuple[str, str], float]]:
        """The seconds that a byte of a transfer takes on each of its links."""
        load = self.of([(what, Fraction(1))])
        return [(link, 8 * each / _rate(self._fabric, *link)) for link, each in load.items()]

    def _on_tree(
        self, operation: TreeOperation, share: float, load: defaultdict[tuple[str, str], float]
    ) -> None:
        tree = self._plan.trees[operation.tree]
        share *= self._plan.sent
        stream = share / self._framing.ina_efficiency
        receipts = share * self._framing.ina_ack_share
        up = receipts if isinstance(operation, Multicast) else stream
        down = receipts if isinstance(operation, SwitchReduce) else stream
        for parent in tree.parent.values():
            if parent in self._fabric.capacity and not isinstance(operation, Multicast):
                load[parent, parent] += share
        for child, parent in tree.parent.items():
            for source, to, amount in ((child, parent, up), (parent, child, down)):
                # The tree chooses the next hop of packets that its switches send, unless the flow
                # has a route; hosts leave the choice to ECMP.
                if source in tree.switches and (source, to) not in self._plan.routes:
                    hop = tree.hop(child, self._fabric.next_hops(source, to), source == parent)
                    load[source, hop] += amount
                    self._add(hop, to, amount, load)
                else:
                    self._add(source, to, amount, load)

    def _add(
        self, source: str, to: str, amount: float, load: defaultdict[tuple[str, str], float]
    ) -> None:
        for link, share in self._paths.shares(source, to).items():
            load[link] += share * amount


def seconds_per_byte(plan: Plan, fabric: Fabric) -> float:
    """Seconds that the busiest link needs per byte of gradient, at the real cluster's rates."""
    return busiest_s(link_loads(plan, fabric), fabric)


def busiest_s(loads: Load, fabric: Fabric) -> float:
    """The seconds that the busiest link needs for its bytes, at the real cluster's rates."""
    return max((load * 8 / _rate(fabric, *link) for link, load in loads.items()), default=0.0)


def _rate(fabric: Fabric, a: str, b: str) -> float:
    return fabric.capacity[a] if a == b else fabric.link(a, b).rate


@dataclass(frozen=True)
class Expected:
    """One iteration in closed form: its length, and the part that compute does not hide (s).

    ``gap_s`` is how much later each worker must begin than the one before it, for this to hold.
    """

    iteration_s: float
    exposed_s: float
    gap_s: float = 0.0


@dataclass(frozen=True)
class Timing:
    """When one iteration's gradients are ready.

    Attributes:
        pieces: (ready_s, bytes) of the units in order.
        compute_s: the time of forward and backward.
        least_pace: the least time per byte of gradient, if a link is known to carry more than its
            even share (s).
        buckets: the bucket of each piece, for iterations that wait for buckets.
        forward: the parts of the forward pass, each with the bucket that it waits for.
        parts: the lengths of the parts of the computation for which parameters are gathered (s).
        waits: for each piece, the part of the computation that must have begun before it is ready,
            and the part that needs it.
    """

    pieces: Sequence[tuple[float, float]]
    compute_s: float = 0.0
    least_pace: float = 0.0
    buckets: Sequence[int] = ()
    forward: Sequence[Need] = ()
    parts: Sequence[float] = ()
    waits: Sequence[tuple[int | None, int | None]] = ()


class ClosedForm:
    """How long ``plan`` takes on an otherwise idle fabric.

    Units pass the busiest link one after another. A unit ends when the phases that load other links
    are over, too, and when each of the dependent transfers in its chain has cost ``step_s``. Units
    overlap in these two.

    If a plan's stages overlap, a single unit is followed chunk by chunk (see `overlap`). With more
    workers than `WRITTEN_OUT`, stages wait for one another instead.
    """

    def __init__(self, plan: Plan, fabric: Fabric, step_s: float = 0.0) -> None:
        self._plan, self._fabric, self._step_s = plan, fabric, step_s
        self._loads = _Loads(plan, fabric)
        self._followed_s = cache(
            lambda size: overlap.alone_s(plan, size, step_s, self._loads.seconds)
        )

    @cached_property
    def _by_phase(self) -> list[Load]:
        return [self._loads.of(phase) for phase in _phases(self._plan)]

    @cached_property
    def _total(self) -> Load:
        return _sum(self._by_phase)

    @cached_property
    def _seconds(self) -> tuple[float, float]:
        """The seconds of a byte on the busiest link, and the sum of those on each phase's busiest
        link."""
        pace = busiest_s(self._total, self._fabric)
        return pace, sum(busiest_s(phase, self._fabric) for phase in self._by_phase)

    @cached_property
    def _links(self) -> dict[tuple[str, str], float]:
        """The seconds of a byte on each link."""
        return {link: 8 * load / _rate(self._fabric, *link) for link, load in self._total.items()}

    @cached_property
    def _chain_s(self) -> float:
        return self._step_s * chain.length(self._plan) if self._step_s else 0.0

    def iteration(self, timing: Timing) -> Expected:
        """One iteration.

        A second stage consists of units of the previous iteration, ready at 0: if U of M bytes are
        deferred and the rest is ready after compute T, the iteration takes
        T + (M-U)·pace + max(0, U·pace - T).

        Workers that update parameters without a barrier, evenly spaced, do not contend: an
        iteration lasts as long as for one worker alone, unless a round of all workers' transfers
        takes longer. Workers that begin together spread out on their own, but only after some
        iterations. A worker that takes turns pushes nothing before its whole gradient is ready. At
        each moment, every server serves a different worker's turn, so that all their links are
        busy.
        """
        plan, consistency = self._plan, self._plan.consistency
        if plan.sharding is not None:
            return self._sharded(timing)
        if consistency is None or consistency.is_barrier:
            finish = max(timing.compute_s, self._end(timing))
            return Expected(finish, finish - timing.compute_s)
        if consistency.turns:
            last = max((ready_s for ready_s, _ in timing.pieces), default=0.0)
            timing = replace(timing, pieces=[(last, size) for _, size in timing.pieces])
        lonely = replace(timing, least_pace=0.0)
        alone = max(
            ClosedForm(_only(plan, worker), self._fabric, self._step_s)._end(lonely)
            for worker in range(plan.workers)
        )
        pace = max(timing.least_pace, self._seconds[0])
        finish = max(timing.compute_s, alone, pace * sum(size for _, size in timing.pieces))
        return Expected(finish, finish - timing.compute_s, finish / plan.workers)

    def replayed(self, timing: Timing, paces: Sequence[float]) -> tuple[Expected, ...]:
        """Iterations that each begin as soon as the computation of the previous one has ended.

        The forward pass waits for the sums of the previous iteration, bucket by bucket. An
        iteration lasts from the last sum of the previous one to its own last sum. ``paces`` has the
        factor of each iteration's times. Pieces that are ready at 0 are ready once the previous
        iteration is summed.

        Here, pieces are summed one after another. If ranks have many in flight at once, as in a
        ring without credit, the pieces that the forward pass needs first arrive later. Then this is
        a lower bound.
        """
        found: list[Expected] = []
        start = over = 0.0
        arrived: dict[int, float] = {}
        for factor in paces:
            stalled = stalled_s(timing.forward, start, arrived, factor)
            ready = [
                (start + stalled + ready_s * factor if ready_s > 0 else over, size)
                for ready_s, size in timing.pieces
            ]
            computed = timing.compute_s * factor
            start += stalled + computed
            ends = self._ends(replace(timing, pieces=ready))
            arrived |= dict(zip(timing.buckets, ends, strict=True))
            before, over = over, max(start, *arrived.values())
            found.append(Expected(over - before, max(0.0, over - before - computed)))
        return tuple(found)

    def _sharded(self, timing: Timing) -> Expected:
        """An iteration that gathers parameters and sums gradients, one piece after another on each
        link.

        For a ring of N workers and computation that takes no time, this is (N-1)/N·M/B for each
        time that parameters are gathered, and the same for the sums.
        """
        collectives = [
            ClosedForm(each, self._fabric, self._step_s) for each, _ in self._plan.collectives
        ]
        slower = max(1.0, timing.least_pace / self._seconds[0]) if self._seconds[0] else 1.0
        missing = Counter(needed for _, needed in timing.waits)
        parts = range(len(timing.parts))
        computation = Computation(timing.parts, [missing[part] for part in parts], 0.0)
        free: defaultdict[tuple[str, str], float] = defaultdict(float)
        finish = 0.0
        for (ready_s, size), (after, needed) in zip(timing.pieces, timing.waits, strict=True):
            form = collectives[needed is not None]
            begin = computation.ready_s(ready_s, after)
            for link, seconds in form._links.items():
                free[link] = max(free[link], begin) + size * seconds * slower
            fixed_s, per_byte = form._alone((size,))
            rest_s = fixed_s + size * max(0.0, per_byte - form._seconds[0])
            end = rest_s + max((free[link] for link in form._links), default=begin)
            finish = max(finish, end)
            if needed is not None:
                computation.arrived(needed, end)
        finish = max(finish, computation.end_s)
        return Expected(finish, finish - timing.compute_s)

    def _end(self, timing: Timing) -> float:
        return max(self._ends(timing), default=0.0)

    def _ends(self, timing: Timing) -> Iterator[float]:
        """When each of the pieces is summed."""
        pace = max(timing.least_pace, self._seconds[0])
        fixed_s, per_byte = self._alone(tuple(size for _, size in timing.pieces))
        through = end = 0.0
        for ready_s, size in timing.pieces:
            through = max(ready_s, through) + size * pace
            end = max(through + fixed_s + size * max(0.0, per_byte - pace), end + size * pace)
            yield end

    def _alone(self, sizes: tuple[float, ...]) -> tuple[float, float]:
        """The time of a single unit: the fixed part, and the time per byte."""
        programs = self._plan.programs
        if not (
            sizes
            and isinstance(programs, Stages)
            and programs.overlap
            and self._plan.workers <= chain.WRITTEN_OUT
        ):
            return self._chain_s, self._seconds[1]
        least, most = min(sizes), max(sizes)
        per_byte = self._followed_s(most) / most
        if least < most:
            per_byte = (self._followed_s(most) - self._followed_s(least)) / (most - least)
        return max(0.0, self._followed_s(most) - per_byte * most), per_byte


def _only(plan: Plan, worker: int) -> Plan:
    """The plan of updates as if ``worker`` were the only one."""
    return replace(
        plan,
        programs=tuple(ops if rank == worker else () for rank, ops in enumerate(plan.programs)),
    )
