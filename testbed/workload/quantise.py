"""Gradients as integers that switches can add, and the resulting error.

There are two schemes. In SwitchML's (Sapio et al., NSDI 2021; the exponent quantiser of the client
library in p4lang/p4app-switchML), workers agree on each packet's largest exponent, so that a
packet's values use the whole int32. In ATP's (Lao et al., NSDI 2021), there is one fixed factor for
all values.

Arrays are [workers, values]; results are the sum over workers, as each worker would use it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt

Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]
_T = TypeVar("_T", bound=np.generic)

INT32_MAX = 2**31 - 1
BLOCK = 256
"""Values per packet, unless the fabric sets another number."""

ATP_FACTOR = 1e6
"""The factor in ATP's released client (in-ATP/ATP); the paper names 1e8."""


def exponents(values: Float32, block: int = BLOCK) -> npt.NDArray[np.int32]:
    """int32[workers, blocks]: the least e of each block with 2^e >= its largest magnitude.

    A block of zeros has the exponent of the least float32, so that any other exponent is larger.
    """
    largest = np.abs(_blocks(values, block)).max(axis=-1)
    fraction, exponent = np.frexp(np.maximum(largest, np.float32(2.0**-149)))
    least: Int32 = np.where(fraction == 0.5, exponent - 1, exponent).astype(np.int32)
    return least


def to_blocks(
    values: Float32, exponent: Int32, workers: int, block: int = BLOCK, room: int = 0
) -> Int32:
    """int32[..., values]: round(f g), f = INT32_MAX / (workers 2^e) with each block's exponent.

    INT32_MAX / workers is rounded down, so that no sum overflows because of rounding. ``room`` is
    left below it for values that each worker adds later.
    """
    factor = np.ldexp(float(INT32_MAX // workers - room), -exponent)
    scaled = np.rint(_blocks(values, block) * factor[..., None]).astype(np.int32)
    whole: Int32 = scaled.reshape(*values.shape[:-1], -1)[..., : values.shape[-1]]
    return whole


def from_blocks(total: Int32, exponent: Int32, workers: int, block: int = BLOCK) -> Float32:
    """float32[values]: the sum of all workers' ``to_blocks``, as real numbers."""
    factor = np.ldexp(1.0 / (INT32_MAX // workers), exponent)
    turned = (_blocks(total, block) * factor[..., None]).astype(np.float32)
    values: Float32 = turned.reshape(-1)[: total.shape[-1]]
    return values


def block_sum(values: Float32, block: int = BLOCK) -> Float32:
    """float32[values]: the workers' sum via int32 with block exponents."""
    workers = len(values)
    largest = exponents(values, block).max(axis=0)
    sent = [to_blocks(each, largest, workers, block) for each in values]
    return from_blocks(np.add.reduce(sent, dtype=np.int32), largest, workers, block)


def fixed_sum(values: Float32, factor: float = ATP_FACTOR) -> Float32:
    """float32[values]: the workers' sum via int32 with one factor for all.

    Values and sums beyond int32 are clipped, as in a switch that adds with saturation.
    """
    sent = np.clip(np.rint(values * np.float64(factor)), -INT32_MAX - 1, INT32_MAX)
    total = np.clip(sent.sum(axis=0), -INT32_MAX - 1, INT32_MAX)
    turned: Float32 = (total / factor).astype(np.float32)
    return turned


def float_sum(values: Float32) -> Float32:
    """float32[values]: the workers' sum in float32, in the order of ranks."""
    total: Float32 = np.add.accumulate(values, axis=0, dtype=np.float32)[-1]
    return total


SCHEMES: Mapping[str, Callable[[Float32], Float32]] = {
    "float32": float_sum,
    "int32, block exponent (SwitchML)": block_sum,
    "int32, factor 1e6 (ATP)": fixed_sum,
    "int32, factor 1e8 (ATP's paper)": partial(fixed_sum, factor=1e8),
}


def relative_error(found: Float32, values: Float32) -> float:
    """Relative L2 distance of ``found`` from the workers' exact sum; 0 if both are 0."""
    exact: Float64 = values.sum(axis=0, dtype=np.float64)
    norm, distance = _length(exact), _length(found.astype(np.float64) - exact)
    return distance / norm if norm else distance


def _length(values: Float64) -> float:
    # Not numpy.linalg.norm: BLAS uses all cores, which is slow while other cells run.
    return float(np.sqrt(np.square(values).sum()))


def errors(values: Float32) -> dict[str, float]:
    """Each scheme's relative L2 error on the workers' ``values``."""
    return {name: relative_error(scheme(values), values) for name, scheme in SCHEMES.items()}


class Quantiser(Protocol):
    """How a job's gradients become integers, and their sums real numbers."""

    def quantise(self, values: Float32) -> Int32:
        """int32[values]: one worker's gradient, float32[values], as it is sent."""

    def restore(self, total: Float64) -> Float64:
        """float64[values]: the sum of such integers, as real numbers."""


@dataclass(frozen=True)
class Factor:
    """One factor for all values, as in ATP; values beyond int32 are clipped."""

    factor: float

    def quantise(self, values: Float32) -> Int32:
        scaled = np.clip(np.rint(values * np.float64(self.factor)), -INT32_MAX, INT32_MAX)
        whole: Int32 = scaled.astype(np.int32)
        return whole

    def restore(self, total: Float64) -> Float64:
        return total / self.factor


@dataclass(frozen=True)
class BlockExponent:
    """An ``exponent`` for each ``block`` of values, on which ``workers`` have agreed, as in
    SwitchML. ``room`` is left in each worker's integers for values that it adds later."""

    exponent: Int32
    workers: int
    block: int = BLOCK
    room: int = 0

    @classmethod
    def agreed(
        cls, gradients: Iterable[Float32], workers: int, block: int = BLOCK, room: int = 0
    ) -> BlockExponent:
        """The quantiser for the ``gradients``, float32[values], of all workers."""
        largest = np.maximum.reduce([exponents(each, block) for each in gradients])
        return cls(largest, workers, block, room)

    def quantise(self, values: Float32) -> Int32:
        return to_blocks(values, self.exponent, self.workers, self.block, self.room)

    def restore(self, total: Float64) -> Float64:
        factor = np.ldexp(1.0 / (INT32_MAX // self.workers - self.room), self.exponent)
        scaled = _blocks(total, self.block) * factor[:, None]
        restored: Float64 = scaled.reshape(-1)[: len(total)]
        return restored


def _blocks(values: npt.NDArray[_T], block: int) -> npt.NDArray[_T]:
    """[..., blocks, block], the last block filled up with zeros."""
    short = -values.shape[-1] % block
    padded = np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, short)])
    return padded.reshape(*values.shape[:-1], -1, block)
