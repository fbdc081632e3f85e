"""Runs a plan on sets instead of numbers.

A chunk at a rank is the multiset of contributions summed in it. When the program ends, each
worker must hold each chunk with every worker's contribution exactly once. Where workers update
parameters instead, these must hold that, and each worker its own contribution and none twice.
"""

from __future__ import annotations

from collections import Counter, deque

from testbed.plan.program import (
    Multicast,
    Operation,
    Plan,
    Receive,
    Send,
    SwitchReduce,
    TreeOperation,
    Update,
)
from testbed.plan.trees import Tree


class PlanError(Exception):
    """The plan does not compute the sum; the message lists every fault found."""


def check(plan: Plan) -> None:
    """Prove that ``plan`` sums every chunk exactly once at every worker. PlanError if not."""
    faults = [fault for tree in plan.trees for fault in _tree_faults(plan, tree)]
    if len(plan.programs) != len(plan.hosts):
        faults.append(f"{len(plan.programs)} programs for {len(plan.hosts)} ranks")
    if sum(plan.share(chunk) for chunk in range(plan.chunks)) != 1:
        faults.append("the chunks' shares do not add up to a bucket")
    if not faults:
        faults = _update_faults(plan)
    if not faults:
        faults = [fault for index in range(len(plan.trees)) for fault in _order(plan, index)]
    if not faults:
        faults = _Run(plan).faults()
    if faults:
        raise PlanError(f"{plan.system}: " + "; ".join(faults))


def _tree_faults(plan: Plan, tree: Tree) -> list[str]:
    faults = []
    for host, rank in tree.rank_of.items():
        if plan.hosts[rank] != host:
            faults.append(f"tree names {host} as rank {rank}, which is {plan.hosts[rank]}")
        if host not in tree.parent:
            faults.append(f"member {host} hangs on no parent")
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


def _order(plan: Plan, index: int) -> list[str]:
    """Fragments are numbered in the order of use, so all that take part must agree on it."""
    uses = {rank: _uses(plan, rank, index) for rank in plan.ranks}
    taking_part = plan.trees[index].participants
    faults = [
        f"rank {rank} uses tree {index} without being on it"
        for rank, used in uses.items()
        if used and rank not in taking_part
    ]
    first = min(taking_part)
    faults += [
        f"ranks {first} and {rank} use tree {index} in different orders"
        for rank in sorted(taking_part)
        if uses[rank] != uses[first]
    ]
    # A slot is free for what follows in it once the sender is done, which differs between kinds.
    if len(kinds := {type(use).__name__ for used in uses.values() for use in used}) > 1:
        faults.append(f"tree {index} has operations of several kinds: {', '.join(sorted(kinds))}")
    return faults


def _update_faults(plan: Plan) -> list[str]:
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
        f"chunk {chunk} is updated nowhere"
        for chunk in range(plan.chunks)
        if chunk not in server_of
    ]


def _uses(plan: Plan, rank: int, index: int) -> list[TreeOperation]:
    operations = plan.programs[rank]
    return [op for op in operations if isinstance(op, TreeOperation) and op.tree == index]


class _Run:
    """Executes all ranks' programs until nothing more can move."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.held: dict[tuple[int, int], Counter[int]] = {
            (rank, chunk): Counter({rank: 1} if rank < plan.workers else {})
            for rank in plan.ranks
            for chunk in range(plan.chunks)
        }
        self.wire: dict[tuple[int, int, int], deque[Counter[int]]] = {}
        self.released: set[tuple[int, int]] = set()
        self.added: set[tuple[int, int]] = set()
        # A tree's fragments are numbered in the order of use, so a use waits for those before it.
        self.uses = [
            deque(_uses(plan, min(tree.participants), index))
            for index, tree in enumerate(plan.trees)
        ]
        # Per rank and chunk, what is still to be done: the order that binds is the chunk's.
        self.todo: dict[tuple[int, int], deque[Operation]] = {}
        for rank, program in enumerate(plan.programs):
            for operation in program:
                self.todo.setdefault((rank, operation.chunk), deque()).append(operation)

    def faults(self) -> list[str]:
        while any([self._advance(rank, chunk) for rank, chunk in self.todo]):
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
            f"rank {rank} ends with {dict(self.held[rank, chunk])} in chunk {chunk}"
            for rank, chunk in self._final()
            if not self._is_right(rank, chunk)
        ]
        return stuck + unread + wrong

    def _final(self) -> list[tuple[int, int]]:
        """Every rank and chunk that must end right: the workers', and where updates were added."""
        servers = {
            (op.server, op.chunk)
            for ops in self.plan.programs
            for op in ops
            if isinstance(op, Update)
        }
        workers = [(r, c) for r in range(self.plan.workers) for c in range(self.plan.chunks)]
        return workers + sorted(servers)

    def _is_right(self, rank: int, chunk: int) -> bool:
        held, everyone = self.held[rank, chunk], Counter(range(self.plan.workers))
        if self.plan.consistency is None or rank >= self.plan.workers:
            return held == everyone
        return held[rank] == 1 and held <= everyone

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
                self.held[rank, chunk].copy()
            )
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
            if not consistency.may_add(self._counts(parameters), rank):
                return False
            parameters += self.held[rank, chunk]
            self.added.add((rank, chunk))
        if not consistency.may_answer(self._counts(parameters), rank):
            return False
        self.held[rank, chunk] = parameters.copy()
        self.added.remove((rank, chunk))
        return True

    def _counts(self, parameters: Counter[int]) -> list[int]:
        return [parameters[worker] for worker in range(self.plan.workers)]

    def _on_tree(self, rank: int, operation: TreeOperation) -> bool:
        """Happens at once, when everyone on the tree has come to it."""
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
        total = sum((self.held[each, chunk] for each in members), Counter[int]())
        if isinstance(operation, SwitchReduce):
            assert tree.root_rank is not None
            self.held[tree.root_rank, chunk] += total
        elif isinstance(operation, Multicast):
            assert tree.root_rank is not None
            for each in members:
                self.held[each, chunk] = self.held[tree.root_rank, chunk].copy()
        else:
            for each in tree.participants:
                self.held[each, chunk] = total.copy()
        self.released |= {(each, chunk) for each in tree.participants - {rank}}
        return True
