"""A workload's trace from a training script: its tensors, with stated times."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from testbed.training import script
from testbed.training.computation import Computation
from testbed.training.errors import require_torch
from testbed.units import format_time
from testbed.workload.trace import Tensor, Trace

_FORWARD = 1 / 3
"""The usual share of the forward pass: backward computes two products for each of forward's."""
_BATCHES = 8


def trace_of(path: Path, compute_s: float, batch: int, seed: int = 1) -> Trace:
    """The trace of a script's model, whose iteration on a ``batch`` computes for ``compute_s``.

    Each tensor takes a share of the time in proportion to its values, and gradients become ready
    from the last to the first. PGP, the product of parameter and gradient by which OSP judges
    importance, is that of the initial parameters: for each tensor the sum of magnitudes, the mean
    of up to 8 batches. TrainingError if the script cannot be used.
    """
    require_torch()
    computation = Computation(script.load(path), 1, batch, seed)
    parameters = computation.initial
    products = np.zeros(len(parameters))
    count = min(_BATCHES, max(1, computation.samples // batch))
    for index in range(count):
        gradient, _ = computation.gradient(parameters, 0, index)
        products += np.abs(parameters * gradient)
    ends = np.cumsum([elements for _, elements in computation.tensors])
    shares = [float(part.sum() / count) for part in np.split(products, ends[:-1])]
    pace = compute_s / len(parameters)
    return Trace(
        name=path.stem,
        batch=batch,
        tensors=tuple(
            Tensor(name, elements, elements * pace * _FORWARD, elements * pace * (1 - _FORWARD))
            for name, elements in computation.tensors
        ),
        provenance={
            "contents": "layer sizes of a training script; times are stated, not measured",
            "model": f"{path.name}, model()",
            "seed": str(seed),
            "iteration_time": f"{format_time(compute_s)}, stated; a tensor's share is in"
            " proportion to its values, a third of it forward",
            "pgp": " ".join(f"{share:.6g}" for share in shares),
        },
    )
