"""The plan: what every rank does to synchronise one bucket, as pure data.

A plan is a program over *chunks*, like those of MSCCL's collective language: the algorithm is
separate from how bytes move. The program is the same for every bucket. Operations on different
chunks are independent; on one chunk they run in program order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import accumulate
from typing import Literal, TypeAlias

from testbed.plan.trees import Tree
from testbed.topology.paths import Routes


@dataclass(frozen=True, slots=True)
class Send:
    """Unicast the local chunk to rank ``to`` over the fabric."""

    chunk: int
    to: int


@dataclass(frozen=True, slots=True)
class Receive:
    """Take a chunk from rank ``source`` and add it to the local one, or replace it."""

    chunk: int
    source: int
    reduce: bool


@dataclass(frozen=True, slots=True)
class SwitchAllReduce:
    """Members' chunks are summed on the way up ``tree``, and the sum returns to each member.

    The tree's root, if it is a rank, runs the operation too: it completes and returns sums.
    """

    chunk: int
    tree: int


@dataclass(frozen=True, slots=True)
class SwitchReduce:
    """Members' chunks are summed on the way up ``tree``; the root, a rank, adds the sum to its own.

    Members keep their chunks.
    """

    chunk: int
    tree: int


@dataclass(frozen=True, slots=True)
class Multicast:
    """The chunk of the root of ``tree``, a rank, replaces every member's; switches copy it."""

    chunk: int
    tree: int


@dataclass(frozen=True, slots=True)
class Update:
    """Push the local chunk to rank ``server``, which adds it to its parameters; then pull the
    parameters.

    The server's own program is empty: it answers as soon as the plan's consistency allows.
    """

    chunk: int
    server: int


TreeOperation: TypeAlias = SwitchAllReduce | SwitchReduce | Multicast
Operation: TypeAlias = Send | Receive | TreeOperation | Update


@dataclass(frozen=True, slots=True)
class Consistency:
    """The consistency of parameters that workers update without an all-reduce.

    ``counts`` is the number of updates of each worker that the parameters hold.

    Attributes:
        staleness: iterations that a worker may be ahead of the slowest; None means any number,
            0 is a barrier.
        turns: whether updates are added in rank order, round after round.
    """

    staleness: int | None = None
    turns: bool = False

    @property
    def is_barrier(self) -> bool:
        """Whether no worker continues before all have updated."""
        return self.staleness == 0

    def may_add(self, counts: Sequence[int], worker: int) -> bool:
        """Whether the next update of ``worker`` may be added now."""
        return not self.turns or worker == counts.index(min(counts))

    def may_answer(self, counts: Sequence[int], worker: int) -> bool:
        """Whether ``worker``, whose last update has been added, may have the parameters now."""
        return self.staleness is None or counts[worker] - min(counts) <= self.staleness


@dataclass(frozen=True, slots=True)
class Pipelining:
    """How the pieces of a gradient follow one another.

    Attributes:
        partition: the largest piece of a bucket, in bytes, that runs the program on its own, so
            that pieces are pipelined; None runs whole buckets.
        credit: how many pieces a worker may have in flight; None means any number.
        order: ``backward`` sends pieces in the order in which they become ready; ``priority``
            always sends the ready piece that the next forward pass needs first.
    """

    partition: int | None = None
    credit: int | None = None
    order: Literal["backward", "priority"] = "backward"


Program: TypeAlias = tuple[Operation, ...]


@dataclass(frozen=True)
class Sharding:
    """Parameters that workers hold in shards, and gather when they compute with them.

    The owner of a chunk is the rank that has its sum when the plan's programs end.

    Attributes:
        gather: one sequence of operations per rank, after which all workers have every chunk as its
            owner had it.
        reshard: whether workers drop the parameters after the forward pass, and gather them again
            before the backward pass.
    """

    gather: Sequence[Program]
    reshard: bool = True


@dataclass(frozen=True)
class Plan:
    """How one job synchronises one bucket.

    Attributes:
        system: name of the system that made it.
        hosts: the host of each rank. Ranks below ``workers`` train, the others serve.
        workers: number of ranks that contribute a gradient and must receive the sum.
        chunks: number of parts into which a bucket is cut.
        programs: one sequence of operations per rank, or the stages that generate them. All
            participants of a tree use it for the same chunks in the same order.
        trees: aggregation trees that the operations name by index.
        pipelining: how buckets are cut into pieces, and when these are sent.
        shares: each chunk's part of a bucket; None means equal parts.
        deferred: tensors of the trace, by index, that a second stage synchronises during the
            next iteration's compute.
        consistency: for programs of updates; None means that every worker receives the sum.
        sent: the share of packets that trees carry, if they skip packets of zeros.
        routes: flows that take a path of their own; all others follow ECMP.
        sharding: if parameters are sharded, how they are gathered. The programs then end when
            owners have the sums.
    """

    system: str
    hosts: tuple[str, ...]
    workers: int
    chunks: int
    programs: Sequence[Program]
    trees: tuple[Tree, ...] = ()
    pipelining: Pipelining = Pipelining()
    shares: tuple[Fraction, ...] | None = None
    deferred: frozenset[int] = frozenset()
    consistency: Consistency | None = None
    sent: float = 1.0
    routes: Routes = field(default_factory=dict)
    sharding: Sharding | None = None

    @property
    def ranks(self) -> range:
        return range(len(self.hosts))

    @property
    def collectives(self) -> tuple[tuple[Plan, int], ...]:
        """Each program as a plan of its own, and how often a bucket runs it in an iteration."""
        if self.sharding is None:
            return ((self, 1),)
        gather = replace(self, programs=self.sharding.gather, sharding=None)
        return (replace(self, sharding=None), 1), (gather, 1 + self.sharding.reshard)

    def owned(self, rank: int) -> frozenset[int]:
        """The chunks that ``rank`` owns, if parameters are sharded: those that it never receives
        when they are gathered."""
        assert self.sharding is not None
        taken = {
            operation.chunk
            for operation in self.sharding.gather[rank]
            if isinstance(operation, Receive)
            or (isinstance(operation, Multicast) and self.trees[operation.tree].root_rank != rank)
        }
        return frozenset(range(self.chunks)) - taken

    def share(self, chunk: int) -> Fraction:
        """The part of a bucket that is in ``chunk``."""
        return Fraction(1, self.chunks) if self.shares is None else self.shares[chunk]

    def cuts(self, elements: int, grain: int) -> tuple[int, ...]:
        """Where each chunk of a bucket of ``elements`` begins, and where the last one ends.

        Chunks begin at multiples of ``grain``, so only the last one with elements may end within a
        grain. A chunk differs from its share by less than two grains. In a small bucket, chunks may
        be empty.
        """
        ends = accumulate(self.share(chunk) for chunk in range(self.chunks))
        grains = -(-elements // grain)
        return (0, *(min(round(end * grains) * grain, elements) for end in ends))
