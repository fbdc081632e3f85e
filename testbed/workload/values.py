"""Samples of real gradients: their values, their statistics, and values drawn from them.

A sample (``workloads/<model>.gradients.npz``, made by ``workloads/sample.py``) holds the gradients
of several data-parallel workers at the same places of the same model. It consists of blocks of
consecutive values, so that a packet's values belong together. Its workers are correlated like real
ones.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from testbed.workload.catalogue import FAMILIES, WORKLOADS
from testbed.workload.trace import TraceError

Float32 = npt.NDArray[np.float32]

SUFFIX = ".gradients.npz"
# The first stream of random numbers after those of a job's ranks.
_FIRST_STREAM = 2**32


@dataclass(frozen=True)
class Statistics:
    """The distribution of a sample's values.

    ``zeros`` and ``tiny``: the shares of values that are 0, and that are not 0 but below a
    millionth of the root mean square. ``magnitudes``: the absolute value at each quantile.
    ``likeness``: the mean correlation of two workers' gradients.
    """

    values: int
    zeros: float
    tiny: float
    rms: float
    magnitudes: Mapping[float, float]
    likeness: float


@dataclass(frozen=True)
class Sample:
    """Gradients of several workers. ``values``: float32[workers, blocks, values of a block]."""

    name: str
    values: Float32
    steps: tuple[int, ...] = ()
    provenance: Mapping[str, str] = field(default_factory=dict)

    @property
    def workers(self) -> int:
        return int(self.values.shape[0])

    @cached_property
    def rms(self) -> float:
        """Root mean square of all values."""
        return float(np.sqrt(np.mean(np.square(self.values, dtype=np.float64))))

    def by_worker(self) -> Float32:
        """float32[workers, values]: the values to sum."""
        return self.values.reshape(self.workers, -1)

    def statistics(self) -> Statistics:
        size = np.abs(self.values)
        quantiles = (0.01, 0.25, 0.5, 0.75, 0.99, 1.0)
        pairs = np.atleast_2d(np.corrcoef(self.by_worker()))[np.triu_indices(self.workers, 1)]
        return Statistics(
            values=self.values.size,
            zeros=float(np.mean(size == 0)),
            tiny=float(np.mean((size > 0) & (size < 1e-6 * self.rms))),
            rms=self.rms,
            magnitudes={q: float(np.quantile(size, q)) for q in quantiles},
            likeness=float(pairs.mean()) if len(pairs) else 1.0,
        )

    def draw(self, seed: int, rank: int, elements: int) -> Float32:
        """float32[elements] for ``rank``: blocks of the sample in random order, of unit standard
        deviation.

        Ranks form groups of as many as the sample has workers. The ranks of a group get the same
        blocks, each from another worker, so they are correlated like the workers. The next group
        gets other blocks.
        """
        group, worker = divmod(rank, self.workers)
        _, count, length = self.values.shape
        seeds = np.random.SeedSequence([seed, _FIRST_STREAM + group])
        chosen = np.random.Generator(np.random.Philox(seeds)).integers(
            0, count, -(-elements // length)
        )
        drawn: Float32 = self.values[worker][chosen].reshape(-1)[:elements] / np.float32(self.rms)
        return drawn


def load(workload: str) -> Sample:
    """The sample of the family that the shipped ``workload`` belongs to.

    Raises TraceError if there is none, or if the file is damaged.
    """
    name = FAMILIES.get(workload)
    if name is None:
        known = ", ".join(sorted(FAMILIES))
        raise TraceError([f"no sample of real gradients for {workload!r}; there are for {known}"])
    path = WORKLOADS / f"{name}{SUFFIX}"
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            values, steps = arrays["values"], arrays["steps"]
            provenance = json.loads(str(arrays["provenance"]))
    except (OSError, KeyError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise TraceError([f"{path}: cannot be read: {error}"]) from error
    if values.dtype != np.float32 or values.ndim != 3 or not np.isfinite(values).all():
        raise TraceError([f"{path}: wanted finite float32 values of workers, blocks and places"])
    values.flags.writeable = False
    return Sample(name, values, tuple(sorted({int(step) for step in steps})), provenance)
