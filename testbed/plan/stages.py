"""Programs of rings, described compactly: the positions, and the segments that they pass on.

The operations of every rank are generated from this when they are first read: a ring of N ranks has
N², and they are rarely needed. The closed form and large simulations use the rounds instead.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction
from functools import cached_property
from itertools import chain
from typing import TypeAlias, overload

from testbed.plan.program import Operation, Plan, Program, Receive, Send, TreeOperation
from testbed.plan.trees import Tree

Hop: TypeAlias = tuple[int, int] | TreeOperation
"""From one position of a ring to the next: a unicast (source, to), or a tree operation."""


class Turn(Enum):
    """What goes around a ring.

    SCATTER: reduce-scatter. In step t position p passes on segment p-t; in the end position p has
    the sum of segment p+1. GATHER: all-gather. In step t position p passes on segment p+1-t. BOTH:
    SCATTER, then GATHER. ONCE: each position passes on its own segment, once.
    """

    SCATTER = "scatter"
    GATHER = "gather"
    BOTH = "both"
    ONCE = "once"


@dataclass(frozen=True)
class Ring:
    """Positions that each pass a segment on to the next, round after round.

    Attributes:
        hops: one for each position, in the order in which a segment takes them. The chunk of a
            tree operation is ignored.
        segments: the chunks of each segment; as many segments as positions.
        turn: see `Turn`.
    """

    hops: tuple[Hop, ...]
    segments: tuple[tuple[int, ...], ...]
    turn: Turn

    @property
    def rounds(self) -> int:
        """How many times each position passes a segment on."""
        once_round = len(self.hops) - 1
        return {Turn.BOTH: 2 * once_round, Turn.ONCE: 1}.get(self.turn, once_round)

    def moves(self, segments: Collection[int]) -> Iterator[tuple[int, int, bool]]:
        """The moves of ``segments`` in order, as (segment, position, whether it is added)."""
        length = len(self.hops)
        if self.turn is Turn.ONCE:
            yield from ((segment, segment, True) for segment in sorted(segments))
        for gathers in (False, True):
            if self.turn not in (Turn.BOTH, Turn.GATHER if gathers else Turn.SCATTER):
                continue
            for step in range(length - 1):
                shift = step - gathers
                for position in sorted((segment + shift) % length for segment in segments):
                    yield (position - shift) % length, position, not gathers

    def kept(self, chunks: Collection[int] | None) -> Collection[int]:
        """The segments that hold any of ``chunks``; None stands for all."""
        if chunks is None:
            return range(len(self.segments))
        return [
            place
            for place, own in enumerate(self.segments)
            if any(chunk in chunks for chunk in own)
        ]


Stage: TypeAlias = tuple[Ring, ...]
"""Rings that run concurrently."""


class Stages(Sequence[Program]):
    """The programs of ``ranks`` ranks that go through ``stages`` one after another.

    Each chunk enters its next stage on its own: no stage waits for the end of the previous one.
    ``trees`` are those of the plan.
    """

    def __init__(self, ranks: int, stages: Sequence[Stage], trees: Sequence[Tree] = ()) -> None:
        self._ranks, self._trees = ranks, trees
        self.stages = tuple(
            rings for stage in stages if (rings := tuple(ring for ring in stage if ring.rounds))
        )

    def written(self, chunks: Collection[int] | None = None) -> tuple[Program, ...]:
        """The operations of every rank on ``chunks``, or on all."""
        programs: list[list[Operation]] = [[] for _ in range(self._ranks)]
        for ring in chain.from_iterable(self.stages):
            for segment, position, adds in ring.moves(ring.kept(chunks)):
                hop = ring.hops[position]
                for chunk in ring.segments[segment]:
                    if chunks is not None and chunk not in chunks:
                        continue
                    if isinstance(hop, tuple):
                        source, to = hop
                        programs[source].append(Send(chunk, to))
                        programs[to].append(Receive(chunk, source, adds))
                    else:
                        together = replace(hop, chunk=chunk)
                        for rank in self._trees[hop.tree].participants:
                            programs[rank].append(together)
        return tuple(map(tuple, programs))

    @cached_property
    def _programs(self) -> tuple[Program, ...]:
        return self.written()

    @property
    def in_step(self) -> bool:
        """Whether all positions are alike and thus keep step: within a stage, all have equally many
        rounds and hops of one kind, and no stage begins before the previous one is over.
        """
        return not self.overlap and all(
            len({(ring.rounds, type(hop)) for ring in stage for hop in ring.hops}) == 1
            for stage in self.stages
        )

    @property
    def overlap(self) -> bool:
        """Whether stages overlap: a segment's first chunk is passed on before its last has
        arrived."""
        return len(self.stages) > 1 and any(
            len(ring.segments[0]) > 1 for stage in self.stages for ring in stage
        )

    def halves(self) -> tuple[Stages, Stages]:
        """The stages that sum each chunk at one rank, and the stages that pass the sums on to
        all."""
        return self._half(Turn.SCATTER), self._half(Turn.GATHER)

    def _half(self, turn: Turn) -> Stages:
        stages = [
            tuple(replace(ring, turn=turn) for ring in stage if ring.turn in (turn, Turn.BOTH))
            for stage in self.stages
        ]
        return Stages(self._ranks, stages, self._trees)

    @property
    def transfers(self) -> int:
        """How many times chunks are passed on, in all."""
        return sum(
            ring.rounds * sum(map(len, ring.segments)) for stage in self.stages for ring in stage
        )

    def __len__(self) -> int:
        return self._ranks

    @overload
    def __getitem__(self, rank: int) -> Program: ...

    @overload
    def __getitem__(self, rank: slice) -> tuple[Program, ...]: ...

    def __getitem__(self, rank: int | slice) -> Program | tuple[Program, ...]:
        return self._programs[rank]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._programs == tuple(other)

    def __hash__(self) -> int:
        return hash(self._programs)


@dataclass(frozen=True, slots=True)
class Rounds:
    """A ring without its chunks: in each round every position passes on ``share`` of a bucket."""

    rounds: int
    share: Fraction
    hops: tuple[Hop, ...]


def stretches(plan: Plan) -> tuple[tuple[Rounds, ...], ...]:
    """The rounds of each stage's concurrent rings; empty if the plan has no stages.

    Raises ValueError if a ring's segments are not all of the same size.
    """
    if not isinstance(plan.programs, Stages):
        return ()
    known: dict[int, Fraction] = {}
    return tuple(
        tuple(Rounds(ring.rounds, _share(plan, ring, known), ring.hops) for ring in stage)
        for stage in plan.programs.stages
    )


def _share(plan: Plan, ring: Ring, known: dict[int, Fraction]) -> Fraction:
    """The part of a bucket that a segment is; rings of equal racks share their segments."""
    if id(ring.segments) not in known:
        sizes = {sum(map(plan.share, segment), Fraction()) for segment in ring.segments}
        if len(sizes) > 1:
            raise ValueError(
                f"{plan.system}: a ring has segments of {len(sizes)} sizes, wanted one"
            )
        known[id(ring.segments)] = sizes.pop()
    return known[id(ring.segments)]
