"""Where a model's parameters are in a job's values: units in sending order."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from testbed.deployment.deploy import DeployedJob
from testbed.hosts.layout import Layout
from testbed.workload.values import Float32


@dataclass(frozen=True)
class Places:
    """The order of a job's values.

    Attributes:
        layout: the positions of the job's units and chunks.
        order: the place in the model of each value of the job's order.
        deferred: which values wait for the second stage.
    """

    layout: Layout
    order: npt.NDArray[np.int64]
    deferred: npt.NDArray[np.bool_]

    @property
    def elements(self) -> int:
        return self.layout.elements

    def spread(self, flat: Float32) -> Float32:
        """A model's values, float32[parameters], in the job's order."""
        return flat[self.order]

    def gather(self, values: Float32) -> Float32:
        """The inverse of :meth:`spread`."""
        flat = np.empty_like(values)
        flat[self.order] = values
        return flat


def places(job: DeployedJob) -> Places:
    """The order of a full-size ``job``'s values."""
    starts = np.cumsum([0, *(tensor.elements for tensor in job.trace.tensors)])
    held = {
        bucket.index: np.concatenate(
            [np.arange(starts[index], starts[index + 1]) for index in bucket.tensors]
        )
        for bucket in job.buckets
    }
    taken: Counter[int] = Counter()
    order, deferred = [], []
    for unit in job.units:
        first = taken[unit.bucket]
        order.append(held[unit.bucket][first : first + unit.elements])
        deferred.append(np.full(unit.elements, unit.deferred))
        taken[unit.bucket] += unit.elements
    layout = Layout(job.plan, job.units, job.fabric.values)
    return Places(layout, np.concatenate(order), np.concatenate(deferred))
