"""Workers' gradients as the integers that are sent, and their sums as mean gradients."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from testbed.experiment.schema import Job
from testbed.training.errors import TrainingError
from testbed.workload.quantise import (
    INT32_MAX,
    BlockExponent,
    Factor,
    Float32,
    Int32,
    Quantiser,
    relative_error,
)


@dataclass(frozen=True)
class Quantised:
    """The gradients of all workers in one iteration.

    Attributes:
        sent: int32[workers, values].
        total: int32[values], their sum.
        error: relative L2 distance of the sum from the sum of the float gradients.
    """

    quantiser: Quantiser
    sent: Int32
    total: Int32
    error: float

    def mean(self, total: Int32) -> Float32:
        """float32[values]: the mean gradient that the integers' sum ``total`` represents."""
        real = self.quantiser.restore(total.astype(np.float64))
        mean: Float32 = (real / len(self.sent)).astype(np.float32)
        return mean


def quantised(gradients: Float32, job: Job, block: int, when: str) -> Quantised:
    """``gradients``, float32[workers, values], as the ``job``'s quantisation sends them.

    Raises TrainingError if a value or a sum leaves the range of int32.
    """
    quantiser = _quantiser(gradients, job, block)
    sent = np.array([quantiser.quantise(each) for each in gradients])
    exact = sent.sum(axis=0, dtype=np.int64)
    clipped = isinstance(quantiser, Factor) and bool((np.abs(sent) == INT32_MAX).any())
    if clipped or (np.abs(exact) > INT32_MAX).any():
        raise TrainingError(
            f"{when}: a gradient or its sum leaves the range of int32 with quantisation"
            f" {job.quantisation}; take a smaller factor or fixed_point, or block_exponent"
        )
    total = exact.astype(np.int32)
    restored = quantiser.restore(total.astype(np.float64)).astype(np.float32)
    return Quantised(quantiser, sent, total, relative_error(restored, gradients))


def _quantiser(gradients: Float32, job: Job, block: int) -> Quantiser:
    if job.quantisation == "block_exponent":
        return BlockExponent.agreed(gradients, len(gradients), block)
    if job.quantisation == "factor":
        return Factor(float(job.factor))
    return Factor(2.0**job.fixed_point)
