"""Gradients whose sum is known, so that every received value can be checked bit for bit.

In iteration t, rank r contributes ``v[r, t] = g[r] + b(r, t)``, as int32 with wrap-around. This is
the rank's base vector, of normally distributed or of real gradient values, plus a small constant
for the iteration. The sum over ranks is then the sum of the bases, which is computed once, plus one
number, `Gradients.offset_of`. So checking an iteration takes one pass over the received values.

The constants reveal errors: b is positive and odd, and steps through all odd 16-bit numbers. So a
rank's contributions differ in any two iterations fewer than 32768 apart, and whole sums differ in
any two fewer than 32768 / ranks apart. A stale, missing or repeated contribution or a misplaced
chunk changes the sum.

If a sum overflows int32, systems such as ATP send the values again as floats and sum those:
``float_total`` is that sum, correctly rounded.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from testbed.workload.quantise import Factor, Float64, Quantiser
from testbed.workload.values import Sample

Int32 = npt.NDArray[np.int32]
Float32 = npt.NDArray[np.float32]

# With a standard deviation of 2^20, sums of normal values over thousands of ranks fit into int32.
FIXED_POINT = 20
_INT32_MAX = 2**31 - 1
_OFFSETS = 2**15
LARGEST_CONSTANT = 2 * _OFFSETS - 1
"""The largest b(r, t)."""
_STEP = 20251  # odd, to visit all of the 2^15 offsets; 2^15 / 1.618, to spread them


class NoGradient(Exception):
    """A worker's gradient cannot be computed; the message, one line, says why."""


class Gradients:
    """The gradients of one job.

    ``seed``: the job's; ``ranks``: workers; ``elements``: values of each worker's gradient.
    ``fixed_point``: the standard deviation of the base values is 2 to this power, 0 to 30.
    ``sample``: real gradients to draw the base values from; without it they are normal. Normal
    values are clipped at 16 standard deviations. Real ones, which have heavy tails, are clipped
    only at the limits of int32. ``quantiser``: how real values, of unit standard deviation, become
    integers, if not by ``fixed_point``.

    The values come from numpy's Philox generator and normal distribution: all processes of a
    run agree if they use the same numpy installation.

    Raises ValueError for fewer than 1 rank or 1 element or another fixed point.
    """

    computed_s = 0.0
    """The longest time that computation took in an iteration, in seconds on the machine's clock."""

    def __init__(
        self,
        seed: int,
        ranks: int,
        elements: int,
        fixed_point: int = FIXED_POINT,
        sample: Sample | None = None,
        quantiser: Quantiser | None = None,
    ) -> None:
        if not 0 <= fixed_point <= 30:
            raise ValueError(f"a fixed point of {fixed_point} bits, wanted 0 to 30")
        if ranks < 1 or elements < 1 or seed < 0:
            raise ValueError(
                "wanted at least 1 rank and 1 element and a seed that is not negative, "
                f"found {ranks}, {elements} and {seed}"
            )
        self.seed = seed
        self.ranks = ranks
        self.elements = elements
        self.fixed_point = fixed_point
        self.sample = sample
        self.quantiser = quantiser or Factor(2.0**fixed_point)
        self._exact: Float64 | None = None
        self._bases: dict[int, Int32] = {}
        self._total: Int32 | None = None
        # There is one stream more than ranks: the last one draws where each rank's constants start.
        starts = np.random.Generator(self._stream(ranks)).integers(0, _OFFSETS, ranks)
        self._starts = [int(start) for start in starts]
        self._constant_sums = [[0] for _ in range(ranks)]

    @property
    def weights(self) -> str:
        """Digest of the parameters that follow from the sums so far; here empty, because there are
        none."""
        return ""

    def draw(self) -> None:
        """Draw everything now that is otherwise drawn when first used."""
        for rank in range(self.ranks):
            self.base(rank)
        self.expected_total()
        if self.sample is not None:
            self.exact_total()

    def base(self, rank: int) -> Int32:
        """int32[elements], read-only: the constant part of ``rank``'s gradient."""
        self._check(rank)
        if rank not in self._bases:
            self._bases[rank] = self._draw(rank)
        return self._bases[rank]

    def fill(self, rank: int, iteration: int, out: Int32, start: int = 0) -> None:
        """Write values ``start`` to ``start + len(out)`` of ``rank``'s gradient into ``out``.

        Raises ValueError if the gradient has no such values.
        """
        if not 0 <= start <= self.elements - len(out):
            raise ValueError(f"values {start} to {start + len(out)} of {self.elements}")
        base = self.base(rank)[start : start + len(out)]
        np.add(base, np.int32(self._constant(rank, iteration)), out=out)

    def values(self, rank: int, iteration: int, start: int, stop: int) -> Int32:
        """int32[stop - start]: values ``start`` to ``stop`` of ``rank``'s gradient."""
        out = np.empty(max(0, stop - start), np.int32)
        self.fill(rank, iteration, out, start)
        return out

    def float_total(self, iteration: int, start: int, stop: int) -> Float32:
        """float32[stop - start]: the sum over ranks of their values as float32, rounded once.

        Every rank rounds its int32 to float32; the sum of these is exact in float64, in any order,
        and then rounded to float32. Raises ValueError if there are no such values.
        """
        total = np.zeros(max(0, stop - start), np.float64)
        for rank in range(self.ranks):
            total += self.values(rank, iteration, start, stop).astype(np.float32)
        return total.astype(np.float32)

    def expected_total(self) -> Int32:
        """int32[elements], read-only: the sum of all ranks' bases, with wrap-around."""
        if self._total is None:
            total = np.zeros(self.elements, np.int32)
            for rank in range(self.ranks):
                # Draw it again: a worker stores only its own base.
                known = self._bases.get(rank)
                np.add(total, self._draw(rank) if known is None else known, out=total)
            total.flags.writeable = False
            self._total = total
        return self._total

    def exact_total(self) -> Float64:
        """float64[elements], read-only: the sum of all ranks' real gradients before they become
        integers. Raises ValueError if gradients are not real."""
        if self._exact is None:
            if self.sample is None:
                raise ValueError("normal gradients are integers from the start")
            total = np.zeros(self.elements, np.float64)
            for rank in range(self.ranks):
                total += self._real(rank)
            total.flags.writeable = False
            self._exact = total
        return self._exact

    def quantisation_error(self, total: Float64) -> float:
        """Relative L2 distance of a received sum from the exact sum of real gradients.

        ``total`` is the integers' sum minus the iteration's `offset_of`. Raises ValueError if
        gradients are not real.
        """
        exact = self.exact_total()
        norm = float(np.linalg.norm(exact))
        distance = float(np.linalg.norm(self.quantiser.restore(total) - exact))
        return distance / norm if norm else distance

    def offset_of(self, iteration: int, start: int, stop: int) -> np.int32 | Int32:
        """What ``iteration`` adds to values ``start`` to ``stop`` of the sum: here one constant."""
        return _wrapped(sum(self._constant(rank, iteration) for rank in range(self.ranks)))

    def accumulated(self, counts: Sequence[int], start: int, stop: int) -> Int32:
        """int32[stop - start]: the sum of the first ``counts[rank]`` gradients of every rank.

        The values from ``start`` to ``stop``, with wrap-around. Takes one pass, and one more for
        each rank whose count is not the most frequent one. Raises ValueError unless there is one
        count per rank.
        """
        if len(counts) != self.ranks:
            raise ValueError(f"{len(counts)} counts for {self.ranks} ranks")
        usual = max(set(counts), key=counts.count)
        total: Int32 = self.expected_total()[start:stop] * np.int32(usual)
        for rank, count in enumerate(counts):
            if count != usual:
                total += self.base(rank)[start:stop] * np.int32(count - usual)
        total += _wrapped(sum(self._constants(rank, count) for rank, count in enumerate(counts)))
        return total

    def total(self, iteration: int, start: int, stop: int) -> Int32:
        """int32[stop - start]: values ``start`` to ``stop`` of the sum over all ranks."""
        return self.expected_total()[start:stop] + self.offset_of(iteration, start, stop)

    def wrong(self, received: Int32, start: int, iteration: int) -> int:
        """The number of wrong values in ``received``, the sum's values from ``start`` on.

        Raises TypeError for values that are not int32, and ValueError for more values than the sum
        has, because both could hide a wrong value.
        """
        total = self.total(iteration, start, start + len(received))
        if received.dtype != np.int32 or total.dtype != np.int32:
            raise TypeError(f"wanted int32, found {received.dtype} and {total.dtype}")
        if received.shape != total.shape:
            raise ValueError(f"received {received.shape} values for {total.shape}")
        return int(np.count_nonzero(received != total))

    def take(self, rank: int, iteration: int, received: Int32) -> None:
        """Note that ``rank`` has received all sums of ``iteration``. Values that are drawn do not
        depend on them."""

    def _draw(self, rank: int) -> Int32:
        if self.sample is None:
            stream = np.random.Generator(self._stream(rank))
            unit = stream.standard_normal(self.elements, np.float32)
            limit = min(16 * 2**self.fixed_point, _INT32_MAX)
            scaled = np.clip(np.rint(unit * np.float64(2**self.fixed_point)), -limit, limit)
            values: Int32 = scaled.astype(np.int32)
        else:
            values = self.quantiser.quantise(self._real(rank))
        values.flags.writeable = False
        return values

    def _real(self, rank: int) -> Float32:
        """float32[elements]: the real gradient of ``rank``."""
        assert self.sample is not None
        return self.sample.draw(self.seed, rank, self.elements)

    def _stream(self, number: int) -> np.random.Philox:
        return np.random.Philox(np.random.SeedSequence([self.seed, number]))

    def _constant(self, rank: int, iteration: int) -> int:
        """b(rank, iteration): odd, from 1 to 65535."""
        self._check(rank)
        return (self._starts[rank] + iteration * _STEP) % _OFFSETS * 2 + 1

    def _constants(self, rank: int, count: int) -> int:
        """b(rank, 0) + ... + b(rank, count - 1)."""
        sums = self._constant_sums[rank]
        while len(sums) <= count:
            sums.append(sums[-1] + self._constant(rank, len(sums) - 1))
        return sums[count]

    def _check(self, rank: int) -> None:
        if not 0 <= rank < self.ranks:
            raise ValueError(f"rank {rank}, wanted 0 to {self.ranks - 1}")


def _wrapped(total: int) -> np.int32:
    wrapped: np.int32 = np.int32((total + 2**31) % 2**32 - 2**31)
    return wrapped
