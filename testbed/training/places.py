"""Where a model's parameters are in a job's values: units in sending order, with padding."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from testbed.deployment.deploy import DeployedJob
from testbed.hosts.layout import Layout
from testbed.plan.units import largest
from testbed.workload.values import Float32


@dataclass(frozen=True)
class Places:
    """The order of a job's values.

    Attributes:
        layout: its units and chunks.
        order: for each value that is no padding, in the job's order, its place in the model.
        real: the places of these values among all values.
        deferred: which of all values wait for the second stage.
    """

    layout: Layout
    order: npt.NDArray[np.int64]
    real: npt.NDArray[np.int64]
    deferred: npt.NDArray[np.bool_]

    @property
    def elements(self) -> int:
        return self.layout.elements

    def spread(self, flat: Float32) -> Float32:
        """A model's values, float32[parameters], in the job's order, zeros as padding."""
        values = np.zeros(self.elements, np.float32)
        values[self.real] = flat[self.order]
        return values

    def gather(self, values: Float32) -> Float32:
        """The inverse of :meth:`spread`."""
        flat = np.empty(len(self.order), np.float32)
        flat[self.order] = values[self.real]
        return flat


def places(job: DeployedJob) -> Places:
    """The order of a full-size ``job``'s values."""
    starts = np.cumsum([0, *(tensor.elements for tensor in job.trace.tensors)])
    layout = Layout(job.plan, job.units, job.fabric.values)
    most = largest(job.plan, 1)
    order, real = [], []
    deferred = np.zeros(layout.elements, np.bool_)
    for bucket in job.buckets:
        ranges = [np.arange(starts[index], starts[index + 1]) for index in bucket.tensors]
        values = np.concatenate(ranges)
        own = sorted(
            (unit for unit in job.units if unit.bucket == bucket.index),
            key=lambda unit: unit.offset,
        )
        taken = 0
        for unit in own:
            held = min(len(values) - taken, most or len(values))
            order.append(values[taken : taken + held])
            real.append(np.arange(unit.offset, unit.offset + held))
            deferred[unit.offset : unit.offset + unit.elements] = unit.deferred
            taken += held
    return Places(layout, np.concatenate(order), np.concatenate(real), deferred)
