"""Runs a plan on sets instead of numbers.

A chunk at a rank is the multiset of contributions summed in it. When the program ends, each worker
must hold each chunk with every worker's contribution exactly once. If parameters are sharded, each
chunk's owner must hold that. So must each worker after the owners' chunks, and nothing else, have
been gathered. If workers update parameters instead, the parameters must hold that; each worker must
hold its own contribution, and none twice.

Chunks are independent, except for the order in which they use a tree. In a large plan only some
chunks, evenly spaced, are followed: following all takes time and memory cubic in the number of
workers.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache, reduce
from operator import add
from typing import NamedTuple, TypeAlias

from testbed.plan.faults import listed
from testbed.plan.program import (
    Multicast,
    Operation,
    Plan,
    Program,
    Receive,
    Send,
    SwitchReduce,
    TreeOperation,
    Update,
)
from testbed.plan.stages import Stages
from testbed.plan.trees import Tree


class PlanError(Exception):
    """The plan does not compute the sum; the message names the first faults."""


WHOLE = 64
"""Up to this many workers, every chunk is followed."""

FOLLOWED = 4096
"""In larger plans, about this many chunks are followed, counted at all workers together."""

_SHOWN = 8
"""So many faults are named; the others are only counted."""


def check(plan: Plan) -> None:
    """Prove that ``plan`` sums every chunk exactly once at every worker. Raises PlanError if not.

    For a plan with more than `WHOLE` workers this is proved for a sample of its chunks.
    """
    faults = [fault for tree in plan.trees for fault in _tree_faults(plan, tree)]
    for each, _ in plan.collectives:
        if len(each.programs) != len(plan.hosts):
            faults.append(f"{len(each.programs)} programs for {len(plan.hosts)} ranks")
    if sum(plan.share(chunk) for chunk in range(plan.chunks)) != 1:
        faults.append("the chunks' shares do not add up to a bucket")
    chunks: Sequence[int] = range(plan.chunks)
    if plan.workers > WHOLE and not faults:
        chunks = _sample(plan)
        plan = _only(plan, frozenset(chunks))
    if not faults:
        faults = _update_faults(plan, chunks)
    owner: dict[int, int] | None = None
    if not faults and plan.sharding is not None:
        owned = [(chunk, rank) for rank in plan.ranks for chunk in plan.owned(rank) & {*chunks}]
        owner = dict(owned)
        if sorted(chunk for chunk, _ in owned) != [*chunks]:
            faults = ["wanted one owner for each chunk"]
    for gathers, (each, _) in enumerate(plan.collectives):
        if not faults:
            uses = _uses(each)
            trees = range(len(plan.trees))
            faults = [fault for index in trees for fault in _order(each, index, uses)]
        if not faults:
            faults = _Run(each, chunks, uses, owner, bool(gathers)).faults()
    if faults:
        raise PlanError(f"{plan.system}: {listed(faults, _SHOWN)}")


def _sample(plan: Plan) -> Sequence[int]:
    """The chunks that are followed, the first and the last among them."""
    count = min(plan.chunks, max(2, FOLLOWED // plan.workers))
    return sorted({place * (plan.chunks - 1) // max(1, count - 1) for place in range(count)})


def _only(plan: Plan, chunks: Collection[int]) -> Plan:
    """The plan with only those operations of its programs that use ``chunks``."""
    programs = _written(plan.programs, chunks)
    if plan.sharding is None:
        return replace(plan, programs=programs)
    gather = _written(plan.sharding.gather, chunks)
    return replace(plan, programs=programs, sharding=replace(plan.sharding, gather=gather))


def _written(programs: Sequence[Program], chunks: Collection[int]) -> tuple[Program, ...]:
    if isinstance(programs, Stages):
        return programs.written(chunks)
    same = cache(lambda program: tuple(op for op in program if op.chunk in chunks))
    return tuple(map(same, programs))


def _tree_faults(plan: Plan, tree: Tree) -> list[str]:
    faults = []
    for host, rank in tree.rank_of.items():
        if plan.hosts[rank] != host:
            faults.append(f"tree names {host} as rank {rank}, which is {plan.hosts[rank]}")
        if host not in tree.parent:
            faults.append(f"member {host} has no parent")
    if tree.root_rank is not None and plan.hosts[tree.root_rank] != tree.root:
        faults.append(f"the root {tree.root} is not rank {tree.root_rank}")
    if tree.root_rank is None and not tree.protocol.switch_may_be_root:
        faults.append(f"a tree of protocol {tree.protocol.name} needs a host as its root")
    for node in tree.parent:
        seen, at = set(), node
        while at != tree.root:
            if at in seen or at not in tree.parent:
                faults.append(f"{node} does not reach the root {tree.root}")
                break
            seen.add(at)
            at = tree.parent[at]
    return faults


Uses: TypeAlias = Mapping[int, Mapping[int, Sequence[TreeOperation]]]
"""The operations on each tree, by rank, in program order."""


def _uses(plan: Plan) -> Uses:
    uses: defaultdict[int, dict[int, list[TreeOperation]]] = defaultdict(dict)
    for rank, program in enumerate(plan.programs):
        for op in program:
            if isinstance(op, TreeOperation):
                uses[op.tree].setdefault(rank, []).append(op)
    return uses


def _order(plan: Plan, index: int, all_uses: Uses) -> list[str]:
    """The faults in the order of a tree's uses. Fragments are numbered in that order, so all
    participants must agree on it."""
    uses = all_uses.get(index, {})
    taking_part = plan.trees[index].participants
    faults = [
        f"rank {rank} uses tree {index} without being on it"
        for rank in uses
        if rank not in taking_part
    ]
    first = min(taking_part)
    faults += [
        f"ranks {first} and {rank} use tree {index} in different orders"
        for rank in sorted(taking_part)
        if uses.get(rank) != uses.get(first)
    ]
    # Kinds of operations differ in when a slot becomes free for its next fragment.
    if len(kinds := {type(use).__name__ for used in uses.values() for use in used}) > 1:
        faults.append(f"tree {index} has operations of several kinds: {', '.join(sorted(kinds))}")
    return faults


def _update_faults(plan: Plan, chunks: Sequence[int]) -> list[str]:
    updates = [
        (rank, op) for rank in plan.ranks for op in plan.programs[rank] if isinstance(op, Update)
    ]
    if plan.consistency is None:
        return [f"rank {rank} has {op} in a plan without a consistency" for rank, op in updates]
    faults = [
        f"rank {rank} has {op}, in a plan that consists of updates"
        for rank in plan.ranks
        for op in plan.programs[rank]
        if not isinstance(op, Update)
    ]
    faults += [
        f"rank {rank} has {op}, wanted a worker's update at a server"
        for rank, op in updates
        if not rank < plan.workers <= op.server < len(plan.hosts)
    ]
    server_of: dict[int, int] = {}
    faults += [
        f"rank {rank} has {op}, but rank {server_of[op.chunk]} holds this chunk"
        for rank, op in updates
        if server_of.setdefault(op.chunk, op.server) != op.server
    ]
    return faults + [
        f"chunk {chunk} is updated nowhere" for chunk in chunks if chunk not in server_of
    ]


class _Sum(NamedTuple):
    """A multiset of contributions, with a bit for each rank: the ranks that are in it, and those
    that are in it more than once."""

    once: int = 0
    again: int = 0

    def __add__(self, other: object) -> _Sum:
        assert isinstance(other, _Sum)
        again = self.again | other.again | (self.once & other.once)
        return _Sum(self.once | other.once, again)

    def count(self, rank: int) -> int:
        return (self.once >> rank & 1) + (self.again >> rank & 1)

    def few(self, ranks: int, rank: int) -> tuple[Sequence[int], int]:
        """At most two counts that stand for those of all ``ranks``, and the index of the count of
        ``rank``.

        They are the count of the first rank with the fewest contributions, and that of ``rank``.
        """
        least = next((bits for bits in self if bits != (1 << ranks) - 1), self.again)
        first = (~least & least + 1).bit_length() - 1
        if rank == min(first, ranks - 1):
            return (self.count(rank),), 0
        return (self.count(min(first, ranks - 1)), self.count(rank)), 1

    def seen_by(self, rank: int) -> str:
        """In words, ``rank``'s own contribution first."""
        ranks = sorted(range(self.once.bit_length()), key=lambda each: (each != rank, each))
        return str({each: count for each in ranks if (count := self.count(each))})


class _Run:
    """Executes all ranks' programs until nothing more can move."""

    def __init__(
        self,
        plan: Plan,
        chunks: Sequence[int],
        uses: Uses,
        owner: Mapping[int, int] | None = None,
        gathers: bool = False,
    ) -> None:
        self.plan, self.chunks, self.owner, self.gathers = plan, chunks, owner, gathers
        self.everyone = _Sum((1 << plan.workers) - 1)
        self.held = {
            (rank, chunk): self._before(rank, chunk) for rank in plan.ranks for chunk in chunks
        }
        self.wire: dict[tuple[int, int, int], deque[_Sum]] = {}
        self.released: set[tuple[int, int]] = set()
        self.added: set[tuple[int, int]] = set()
        # A tree's fragments are numbered in the order of use, so uses happen in that order.
        self.uses = [
            deque(uses.get(index, {}).get(min(tree.participants), ()))
            for index, tree in enumerate(plan.trees)
        ]
        # The remaining operations, per rank and chunk: only those on one chunk are ordered.
        self.todo: dict[tuple[int, int], deque[Operation]] = {}
        for rank, program in enumerate(plan.programs):
            for operation in program:
                self.todo.setdefault((rank, operation.chunk), deque()).append(operation)

    def _before(self, rank: int, chunk: int) -> _Sum:
        """What a rank holds at first: its own contribution. In a program that gathers owners'
        chunks, the owner holds the sum and the others hold nothing."""
        if self.gathers and self.owner is not None:
            return self.everyone if self.owner[chunk] == rank else _Sum()
        return _Sum(1 << rank if rank < self.plan.workers else 0)

    def faults(self) -> list[str]:
        while self._sweep():
            pass
        stuck = [
            f"rank {rank} waits for ever in {queue[0]}"
            for (rank, _), queue in self.todo.items()
            if queue
        ]
        unread = [
            f"a chunk {chunk} from rank {source} to {to} is never received"
            for (source, to, chunk), queue in self.wire.items()
            if queue
        ]
        wrong = [
            f"rank {rank} ends with {self.held[rank, chunk].seen_by(rank)} in chunk {chunk},"
            f" wanted {self._wanted(rank)}"
            for rank, chunk in self._final()
            if not self._is_right(rank, chunk)
        ]
        return stuck + unread + wrong

    def _sweep(self) -> bool:
        """Whether anything moved. The receiver of a chunk is advanced again in the same sweep."""
        self.ready, moved = deque(self.todo), False
        while self.ready:
            rank, chunk = self.ready.popleft()
            moved |= (rank, chunk) in self.todo and self._advance(rank, chunk)
        return moved

    def _final(self) -> list[tuple[int, int]]:
        """Every rank and chunk whose end is checked: workers, or only owners if only these have the
        sums, and servers with updates."""
        if self.owner is not None and not self.gathers:
            return [(self.owner[chunk], chunk) for chunk in self.chunks]
        servers = {
            (op.server, op.chunk)
            for ops in self.plan.programs
            for op in ops
            if isinstance(op, Update)
        }
        workers = [(rank, chunk) for rank in range(self.plan.workers) for chunk in self.chunks]
        return workers + sorted(servers)

    def _holds_all(self, rank: int) -> bool:
        """Whether ``rank`` must end with all contributions, and not only with its own."""
        return self.plan.consistency is None or rank >= self.plan.workers

    def _wanted(self, rank: int) -> str:
        return "each worker's once" if self._holds_all(rank) else "its own once, and none twice"

    def _is_right(self, rank: int, chunk: int) -> bool:
        held = self.held[rank, chunk]
        if self._holds_all(rank):
            return held == self.everyone
        return held.count(rank) == 1 and held + self.everyone == (self.everyone.once, held.once)

    def _advance(self, rank: int, chunk: int) -> bool:
        queue, moved = self.todo[rank, chunk], False
        while queue and self._step(rank, queue[0]):
            queue.popleft()
            moved = True
        return moved

    def _step(self, rank: int, operation: Operation) -> bool:
        chunk = operation.chunk
        if isinstance(operation, Send):
            self.wire.setdefault((rank, operation.to, chunk), deque()).append(
                self.held[rank, chunk]
            )
            self.ready.append((operation.to, chunk))
            return True
        if isinstance(operation, Receive):
            arrived = self.wire.get((operation.source, rank, chunk))
            if not arrived:
                return False
            received = arrived.popleft()
            self.held[rank, chunk] = (
                self.held[rank, chunk] + received if operation.reduce else received
            )
            return True
        if isinstance(operation, Update):
            return self._update(rank, operation)
        return self._on_tree(rank, operation)

    def _update(self, rank: int, operation: Update) -> bool:
        chunk, consistency = operation.chunk, self.plan.consistency
        parameters = self.held[operation.server, chunk]
        assert consistency is not None
        if (rank, chunk) not in self.added:
            if not consistency.may_add(*parameters.few(self.plan.workers, rank)):
                return False
            parameters += self.held[rank, chunk]
            self.held[operation.server, chunk] = parameters
            self.added.add((rank, chunk))
        if not consistency.may_answer(*parameters.few(self.plan.workers, rank)):
            return False
        self.held[rank, chunk] = parameters
        self.added.remove((rank, chunk))
        return True

    def _on_tree(self, rank: int, operation: TreeOperation) -> bool:
        """Carry out ``operation`` for all ranks on the tree, once all have reached it."""
        chunk = operation.chunk
        if (rank, chunk) in self.released:
            self.released.remove((rank, chunk))
            return True
        tree = self.plan.trees[operation.tree]
        waiting = [self.todo.get((each, chunk)) for each in tree.participants]
        if not all(queue and queue[0] == operation for queue in waiting):
            return False
        if self.uses[operation.tree][0] != operation:
            return False
        self.uses[operation.tree].popleft()
        members = tree.rank_of.values()
        total = reduce(add, (self.held[each, chunk] for each in members), _Sum())
        if isinstance(operation, SwitchReduce):
            assert tree.root_rank is not None
            self.held[tree.root_rank, chunk] += total
        elif isinstance(operation, Multicast):
            assert tree.root_rank is not None
            for each in members:
                self.held[each, chunk] = self.held[tree.root_rank, chunk]
        else:
            for each in tree.participants:
                self.held[each, chunk] = total
        others = [(each, chunk) for each in tree.participants - {rank}]
        self.released.update(others)
        self.ready.extend(others)
        return True
