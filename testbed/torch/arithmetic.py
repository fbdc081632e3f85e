"""Float32 as the integers that switches add: the factors of each packet, on which all ranks
agree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from testbed.torch.errors import GroupError
from testbed.torch.links import core
from testbed.workload.quantise import INT32_MAX, Float32, Float64, Int32, exponents

Agree: TypeAlias = Callable[[Int32], None]
"""Replaces each number by the largest that any rank has there."""


@dataclass(frozen=True)
class Factors:
    """The factors by which each packet's values are multiplied. Sums become real again when they
    are multiplied by ``back``, or divided by it."""

    to: Float64
    back: Float64
    divides: bool


def factors(
    values: Float32, block: int, factor: float | None, workers: int, agree: Agree
) -> Factors:
    """The factors of ``values``, float32[values], in packets of ``block``, among ``workers``.

    They give the same integers as `BlockExponent` or, with ``factor``, as `Factor`
    (workload.quantise). Raises GroupError at every rank if any rank has a value that cannot be
    sent.
    """
    bits: npt.NDArray[np.uint32] = np.empty(-(-len(values) // block), np.uint32)
    core().largest(values.ctypes.data, len(values), block, bits.ctypes.data)
    # As integers, the bits of magnitudes have the order of the magnitudes. Those of inf and nan are
    # the largest.
    largest = bits.view(np.int32)
    if factor is not None:
        largest = largest.max(keepdims=True)
    agree(largest)
    magnitudes = largest.view(np.float32)
    if not np.isfinite(magnitudes).all():
        raise GroupError("all_reduce: found inf or nan, wanted numbers, which switches can sum")
    if factor is None:
        exponent = exponents(magnitudes, 1)
        most = float(INT32_MAX // workers)
        return Factors(np.ldexp(most, -exponent), np.ldexp(1.0 / most, exponent), False)
    if np.rint(np.float64(magnitudes[0]) * factor) * workers > INT32_MAX:
        raise GroupError(
            f"all_reduce: found {magnitudes[0]:g}, wanted at most"
            f" {INT32_MAX / workers / factor:g}, so that no sum of {workers} ranks leaves int32"
            f" with the factor {factor:g}; take a smaller factor, or quantisation: block_exponent"
        )
    same = np.full(len(bits), factor)
    return Factors(same, same, True)
