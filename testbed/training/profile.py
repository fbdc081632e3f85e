"""A workload's trace from a training script: its tensors, with stated or measured times."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from time import thread_time
from typing import Any

import numpy as np

from testbed.training import script
from testbed.training.computation import Computation
from testbed.training.device import CPU, check, described
from testbed.training.errors import TrainingError, require_torch
from testbed.training.script import Script
from testbed.units import format_time
from testbed.workload.trace import Tensor, Trace

_FORWARD = 1 / 3
"""The forward pass's usual share: the backward pass computes two products for each of its
products."""
_BATCHES = 8
_WARMUP, _PASSES = 5, 30
_SEED = 1


def trace_of(path: Path, compute_s: float | None, batch: int, device: str | None = None) -> Trace:
    """The trace of a script's model, whose iteration on a ``batch`` computes for ``compute_s``, or,
    without that, for as long as ``device`` does: a name of PyTorch's, such as cuda, or cpu, which
    means one thread. The default is the GPU where there is one.

    With a stated time each tensor takes a share of it in proportion to its values, and gradients
    become ready from the last to the first. PGP, the product of parameter and gradient by which OSP
    judges importance, is computed for the initial parameters: for each tensor the sum of
    magnitudes, averaged over up to 8 batches. Raises TrainingError if the script cannot be used.
    """
    require_torch()
    loaded = script.load(path)
    computation = Computation(loaded, 1, batch, _SEED)
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
        clock = _clock(device)
        forward_s, backward, ready = _measured(loaded, batch, clock)
        forward = [size * (forward_s / len(parameters)) for size in sizes]
        contents = f"layer sizes of a training script, with times measured on {clock.place}"
        iteration_time = (
            f"{format_time(forward_s + sum(backward))}, {clock.kind}, medians of"
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
            "seed": str(_SEED),
            "iteration_time": iteration_time,
            "pgp": " ".join(f"{share:.6g}" for share in shares),
        },
    )


class _Thread:
    """Processor time of this thread. On a CPU, PyTorch runs the backward pass in the thread that
    calls it."""

    device, place, kind = CPU, "a CPU", "processor time of one thread"

    def stamp(self) -> float:
        return thread_time()

    def seconds(self, before: float, after: float) -> float:
        return after - before


class _Events:
    """Events in a GPU's stream: an instant is when the work before it was done, not when the host
    asked for it."""

    def __init__(self, device: str) -> None:
        self.device, self.kind = device, "time of the device"
        self.place = f"the device {described(device)}"

    def stamp(self) -> Any:
        import torch

        event = torch.Event(device=self.device, enable_timing=True)
        event.record()
        return event

    def seconds(self, before: Any, after: Any) -> float:
        after.synchronize()
        return float(before.elapsed_time(after)) / 1e3


def _clock(device: str | None) -> _Thread | _Events:
    """The clock of ``device``. Raises TrainingError if PyTorch cannot use that here."""
    import torch

    found = device or ("cuda" if torch.cuda.is_available() else CPU)
    try:
        check(found)
    except TrainingError as error:
        raise TrainingError(f"--device: {error}") from error
    return _Thread() if found == CPU else _Events(found)


def _measured(
    loaded: Script, batch: int, clock: _Thread | _Events
) -> tuple[float, list[float], tuple[int, ...]]:
    """Seconds of the forward pass, and of the backward pass for each tensor; and the order in which
    gradients become ready.

    A gradient's time is that since the one before it, the last one's until the pass ends.
    """
    import torch

    # A GPU's deterministic algorithms need a setting of CUDA's, and are not those of users.
    torch.use_deterministic_algorithms(clock.device == CPU)
    torch.manual_seed(_SEED)
    model = loaded.call("model").to(clock.device).train()
    inputs, targets = (each[:batch].to(clock.device) for each in loaded.call("data", 0, 1))
    parameters = [each for each in model.parameters() if each.requires_grad]
    stamps: list[list[Any]] = [[] for _ in parameters]
    for parameter, own in zip(parameters, stamps, strict=True):
        parameter.register_post_accumulate_grad_hook(lambda _, own=own: own.append(clock.stamp()))
    begins, middles, ends = [], [], []
    for _ in range(_WARMUP + _PASSES):
        model.zero_grad(set_to_none=True)
        with loaded.running("loss()"):
            begins.append(clock.stamp())
            loss = loaded.module.loss(model, inputs, targets)
            middles.append(clock.stamp())
            loss.backward()
            ends.append(clock.stamp())

    def middle(of: list[Any], since: list[Any]) -> float:
        return median(clock.seconds(*pair) for pair in list(zip(since, of, strict=True))[_WARMUP:])

    whole = middle(ends, middles)
    # A tensor without a gradient is ready when the pass ends.
    at = [middle(own, middles) if len(own) == len(middles) else whole for own in stamps]
    ready = tuple(sorted(range(len(at)), key=at.__getitem__))
    times = [at[index] for index in ready[:-1]]
    spans = np.diff([0.0, *times, max([whole, *times])])
    backward = dict(zip(ready, spans.tolist(), strict=True))
    return middle(middles, begins), [backward[index] for index in range(len(at))], ready
