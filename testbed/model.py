"""The closed form: how long an iteration takes if links are the only limit.

Every operation of the plan is routed over the fabric, ECMP sets sharing evenly; the busiest
link, per byte of gradient, sets the pace. For the textbook systems on a fabric without
oversubscription this is the textbook formula: N·M/B for one parameter server, 2(N-1)/N·M/B for
a ring, M/B for aggregation on the way. A few flows that ECMP's hash happens to put on one link
are slower than an even share says.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from testbed.dataplane import wire
from testbed.plan.program import Multicast, Plan, Send, SwitchReduce, TreeOperation, Update
from testbed.topology.fabric import Fabric

Load = dict[tuple[str, str], float]


def link_loads(plan: Plan, fabric: Fabric) -> Load:
    """Bytes on each directed link (a, b), headers included, per byte of gradient synchronised."""
    load: defaultdict[tuple[str, str], float] = defaultdict(float)
    for rank, program in enumerate(plan.programs):
        for operation in program:
            share = float(plan.share(operation.chunk))
            if isinstance(operation, Send):
                _stream(fabric, plan.hosts[rank], plan.hosts[operation.to], share, load)
            elif isinstance(operation, Update):
                worker, server = plan.hosts[rank], plan.hosts[operation.server]
                _stream(fabric, worker, server, share, load)
                _stream(fabric, server, worker, share, load)
    on_trees = {op for ops in plan.programs for op in ops if isinstance(op, TreeOperation)}
    for operation in on_trees:
        tree, share = plan.trees[operation.tree], float(plan.share(operation.chunk))
        stream, receipts = share / wire.INA_EFFICIENCY, share * wire.INA_ACK_SHARE
        up = receipts if isinstance(operation, Multicast) else stream
        down = receipts if isinstance(operation, SwitchReduce) else stream
        for child, parent in tree.parent.items():
            for source, to, amount in ((child, parent, up), (parent, child, down)):
                # Where a tree's switches send, the tree chooses the way; hosts leave it to ECMP.
                if source in tree.switches and source != to:
                    hop = tree.hop(child, fabric.next_hops(source, to))
                    load[source, hop] += amount
                    _route(fabric, hop, to, amount, load)
                else:
                    _route(fabric, source, to, amount, load)
    return dict(load)


def _stream(
    fabric: Fabric,
    source: str,
    destination: str,
    share: float,
    load: defaultdict[tuple[str, str], float],
) -> None:
    """TCP: the stream, and its acknowledgements on the way back."""
    _route(fabric, source, destination, share / wire.TCP_EFFICIENCY, load)
    _route(fabric, destination, source, share * wire.TCP_ACK_SHARE, load)


def _route(
    fabric: Fabric,
    source: str,
    destination: str,
    amount: float,
    load: defaultdict[tuple[str, str], float],
) -> None:
    if source == destination:
        return
    hops = fabric.next_hops(source, destination)
    for hop in hops:
        load[source, hop] += amount / len(hops)
        _route(fabric, hop, destination, amount / len(hops), load)


def seconds_per_byte(plan: Plan, fabric: Fabric) -> float:
    """Seconds the busiest link needs per byte of gradient, on the real cluster's rates."""
    loads = link_loads(plan, fabric)
    return max((load * 8 / fabric.link(a, b).rate for (a, b), load in loads.items()), default=0.0)


@dataclass(frozen=True)
class Expected:
    """One iteration in closed form: its length, and the part that compute does not hide (s)."""

    iteration_s: float
    exposed_s: float


def iteration(
    plan: Plan,
    fabric: Fabric,
    pieces: Sequence[tuple[float, float]],
    compute_s: float,
    step_s: float = 0.0,
    steps: int = 0,
) -> Expected:
    """One iteration of ``plan`` on an otherwise idle fabric.

    ``pieces`` are (ready_s, bytes) of the units in order. They follow one another on the
    busiest link. A plan that cuts buckets into partitions handles each in two phases (up,
    down) that overlap with its neighbours' phases, so only the last one's second phase shows.
    ``steps`` transfers wait for one another, each for ``step_s``, once an iteration.

    A second stage is pieces of the previous iteration, ready at 0 and first in line: with U of M
    bytes deferred and the rest ready after compute T that is T + (M-U)·pace + max(0, U·pace - T).

    Equal workers that update parameters share the server's link and so stay together, as if there
    were a barrier. Evenly spaced in turns they do not meet: an iteration lasts as long as it does
    for one worker alone, unless everyone's transfers of a round need longer.
    """
    pace = seconds_per_byte(plan, fabric)
    if plan.consistency is not None and plan.consistency.turns:
        alone = max(seconds_per_byte(_alone(plan, rank), fabric) for rank in range(plan.workers))
        finish = max(_finish(plan, pieces, alone), pace * sum(size for _, size in pieces))
    else:
        finish = _finish(plan, pieces, pace)
    finish = max(compute_s, finish + steps * step_s)
    return Expected(finish, finish - compute_s)


def _finish(plan: Plan, pieces: Sequence[tuple[float, float]], pace: float) -> float:
    finish = 0.0
    for ready_s, size in pieces:
        finish = max(ready_s, finish) + size * pace
    if plan.partition is not None and pieces:
        finish += pieces[-1][1] * pace
    return finish


def _alone(plan: Plan, worker: int) -> Plan:
    """The plan of updates as if ``worker`` were the only one."""
    return replace(
        plan,
        programs=tuple(ops if rank == worker else () for rank, ops in enumerate(plan.programs)),
    )
