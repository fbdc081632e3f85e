"""A workload's trace from a training script: its tensors, with stated or measured times."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from time import thread_time

import numpy as np

from testbed.training import script
from testbed.training.computation import Computation
from testbed.training.errors import require_torch
from testbed.training.script import Script
from testbed.units import format_time
from testbed.workload.trace import Tensor, Trace

_FORWARD = 1 / 3
"""The forward pass's usual share: the backward pass computes two products for each of its
products."""
_BATCHES = 8
_WARMUP, _PASSES = 5, 30


def trace_of(path: Path, compute_s: float | None, batch: int, seed: int = 1) -> Trace:
    """The trace of a script's model, whose iteration on a ``batch`` computes for ``compute_s``, or,
    without that, for as long as one thread of this machine does.

    With a stated time each tensor takes a share of it in proportion to its values, and gradients
    become ready from the last to the first. PGP, the product of parameter and gradient by which OSP
    judges importance, is computed for the initial parameters: for each tensor the sum of
    magnitudes, averaged over up to 8 batches. Raises TrainingError if the script cannot be used.
    """
    require_torch()
    loaded = script.load(path)
    computation = Computation(loaded, 1, batch, seed)
    parameters = computation.initial
    products = np.zeros(len(parameters))
    count = min(_BATCHES, max(1, computation.samples // batch))
    for index in range(count):
        gradient, _ = computation.gradient(parameters, 0, index)
        products += np.abs(parameters * gradient)
    ends = np.cumsum([elements for _, elements in computation.tensors])
    shares = [float(part.sum() / count) for part in np.split(products, ends[:-1])]
    sizes = [elements for _, elements in computation.tensors]
    if compute_s is None:
        forward_s, backward, ready = _measured(loaded, batch, seed)
        forward = [size * (forward_s / len(parameters)) for size in sizes]
        contents = "layer sizes of a training script, with times measured on a CPU"
        iteration_time = (
            f"{format_time(forward_s + sum(backward))}, processor time of one thread, medians of"
            f" {_PASSES} passes; a tensor's share of forward is in proportion to its values"
        )
    else:
        pace = compute_s / len(parameters)
        forward = [size * pace * _FORWARD for size in sizes]
        backward = [size * pace * (1 - _FORWARD) for size in sizes]
        ready = ()
        contents = "layer sizes of a training script; times are stated, not measured"
        iteration_time = (
            f"{format_time(compute_s)}, stated; a tensor's share is in"
            " proportion to its values, a third of it forward"
        )
    return Trace(
        name=path.stem,
        batch=batch,
        tensors=tuple(
            Tensor(*named, *times)
            for named, *times in zip(computation.tensors, forward, backward, strict=True)
        ),
        ready=ready,
        provenance={
            "contents": contents,
            "model": f"{path.name}, model()",
            "seed": str(seed),
            "iteration_time": iteration_time,
            "pgp": " ".join(f"{share:.6g}" for share in shares),
        },
    )


def _measured(loaded: Script, batch: int, seed: int) -> tuple[float, list[float], tuple[int, ...]]:
    """Seconds of the forward pass, and of the backward pass for each tensor; and the order in which
    gradients become ready.

    A gradient's time is that since the one before it, the last one's until the pass ends. On a CPU,
    PyTorch runs the backward pass in the thread that calls it.
    """
    import torch

    torch.manual_seed(seed)
    model = loaded.call("model").train()
    inputs, targets = (each[:batch] for each in loaded.call("data", 0, 1))
    parameters = [each for each in model.parameters() if each.requires_grad]
    stamps: list[list[float]] = [[] for _ in parameters]
    for parameter, own in zip(parameters, stamps, strict=True):
        parameter.register_post_accumulate_grad_hook(lambda _, own=own: own.append(thread_time()))
    begins, middles, ends = [], [], []
    for _ in range(_WARMUP + _PASSES):
        model.zero_grad(set_to_none=True)
        with loaded.running("loss()"):
            begins.append(thread_time())
            loss = loaded.module.loss(model, inputs, targets)
            middles.append(thread_time())
            loss.backward()
            ends.append(thread_time())

    def middle(of: list[float], since: list[float]) -> float:
        return median(b - a for a, b in list(zip(since, of, strict=True))[_WARMUP:])

    whole = middle(ends, middles)
    # A tensor without a gradient is ready when the pass ends.
    at = [middle(own, middles) if len(own) == len(middles) else whole for own in stamps]
    ready = tuple(sorted(range(len(at)), key=at.__getitem__))
    times = [at[index] for index in ready[:-1]]
    spans = np.diff([0.0, *times, max([whole, *times])])
    backward = dict(zip(ready, spans.tolist(), strict=True))
    return middle(middles, begins), [backward[index] for index in range(len(at))], ready
