"""Gradients with blocks of zeros, whose sum is known, too.

A block is what a protocol skips if it is zero: what one packet carries, or a value. Which blocks of
a rank are not zero is either drawn for each rank, or taken from recorded gradients. The constants
of `gradients` are added only to blocks that are not zero, so that a block of zeros stays zero in
every iteration.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from testbed.workload.gradients import Float32, Gradients, Int32
from testbed.workload.values import Sample

Density: TypeAlias = float | Literal["recorded"]
"""The share of a rank's blocks that are not zero; or "recorded": as in the recorded gradients."""

# Keeps these random numbers distinct from those of the values, whose seeds have two parts.
_STREAM = 1


class SparseGradients(Gradients):
    """Gradients of which only some blocks are not zero.

    ``blocks``: the number of values of each block, in order. ``density``: the share of each rank's
    blocks that are not zero, rounded to whole blocks and drawn separately for each rank. With
    ``recorded``, blocks are zero where the real gradients, as integers, are zero; each block of the
    sample begins a block. The other arguments are those of `Gradients`. Raises ValueError as
    `Gradients` does, and if the blocks do not add up to the elements.
    """

    def __init__(
        self,
        seed: int,
        ranks: int,
        blocks: Sequence[int],
        density: Density,
        **others: Any,
    ) -> None:
        self._lengths = np.asarray(blocks, np.int64)
        super().__init__(seed, ranks, int(self._lengths.sum()), **others)
        if density == "recorded":
            if self.sample is None:
                raise ValueError("a recorded density, wanted real gradients")
        elif not 0 < density <= 1:
            raise ValueError(f"a density of {density}, wanted one above 0, at most 1")
        self.density = density
        self._zeros: dict[int, npt.NDArray[np.bool_]] = {}
        self._offsets: tuple[int, Int32] | None = None

    @cached_property
    def filled(self) -> npt.NDArray[np.bool_]:
        """bool[ranks, blocks]: which blocks are not zero."""
        return np.stack([self._filled(rank) for rank in range(self.ranks)])

    @property
    def union(self) -> float:
        """The share of blocks that are not zero at some rank."""
        return float(self.filled.any(0).mean())

    def fill(self, rank: int, iteration: int, out: Int32, start: int = 0) -> None:
        super().fill(rank, iteration, out, start)
        if rank not in self._zeros:
            self._zeros[rank] = np.repeat(~self.filled[rank], self._lengths)
        out[self._zeros[rank][start : start + len(out)]] = 0

    def draw(self) -> None:
        super().draw()
        assert self.filled.size
        assert self._block_of.size

    def offset_of(self, iteration: int, start: int, stop: int) -> Int32:
        if self._offsets is None or self._offsets[0] != iteration:
            constants = [self._constant(rank, iteration) for rank in range(self.ranks)]
            sums = self.filled.T @ np.array(constants, np.int64)
            self._offsets = iteration, sums.astype(np.int32)  # wraps around
        found: Int32 = self._offsets[1][self._block_of[start:stop]]
        return found

    def _draw(self, rank: int) -> Int32:
        values = super()._draw(rank)
        if self.sample is not None:
            return values
        kept = values * np.repeat(self._filled(rank), self._lengths)
        kept.flags.writeable = False
        return kept

    def _real(self, rank: int) -> Float32:
        """A rank's real gradient. Recorded blocks begin where packets do; otherwise a packet would
        hold parts of two blocks, and have the zeros of neither."""
        assert self.sample is not None
        if self.density != "recorded":
            drawn = super()._real(rank) * np.repeat(self._filled(rank), self._lengths)
            return drawn.astype(np.float32)
        recorded = self.sample.values.shape[-1]
        row = -(-int(self._lengths.max()) // recorded) * recorded
        rows = self.sample.draw(self.seed, rank, row * len(self._lengths)).reshape(-1, row)
        kept: Float32 = rows[np.arange(row) < self._lengths[:, np.newaxis]]
        return kept

    def _filled(self, rank: int) -> npt.NDArray[np.bool_]:
        if self.density == "recorded":
            starts = np.cumsum(self._lengths) - self._lengths
            some: npt.NDArray[np.bool_] = np.logical_or.reduceat(self.base(rank) != 0, starts)
            return some
        blocks = len(self._lengths)
        stream = np.random.Philox(np.random.SeedSequence([self.seed, rank, _STREAM]))
        filled = np.zeros(blocks, np.bool_)
        chosen = np.random.Generator(stream).permutation(blocks)
        filled[chosen[: round(self.density * blocks)]] = True
        return filled

    @cached_property
    def _block_of(self) -> Int32:
        """int32[elements]: the block of each value."""
        return np.repeat(np.arange(len(self._lengths), dtype=np.int32), self._lengths)


def union_of(sample: Sample, ranks: int, block: int) -> float:
    """The share of blocks of ``block`` values that are not zero at some rank, for gradients of
    ``ranks`` ranks drawn from ``sample``, before they become integers.

    Ranks of different groups (`Sample.draw`) have blocks from different places.
    """
    workers, count, length = sample.values.shape
    block = min(block, length)
    cut = sample.values[:, :, : length // block * block].reshape(workers, count, -1, block)
    filled = (cut != 0).any(-1)
    zero = 1.0
    for first in range(0, ranks, workers):
        zero *= 1 - float(filled[: ranks - first].any(0).mean())
    return 1 - zero
