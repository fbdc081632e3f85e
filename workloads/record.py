"""Record a workload's trace from a real model (needs the ``record`` extra: torch, transformers).

    python -m workloads.record resnet50 workloads/resnet50.trace

Real forward and backward passes run on random input, and hooks note when each module starts and
when each gradient is ready. No gradient value is kept. On a GPU, CUDA events take the times, and
the trace has them as measured. On a CPU, times are scaled to the GPU's published iteration.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import itertools
import platform
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import torch
import transformers
from torch import nn

from testbed.workload.trace import Tensor, Trace
from testbed.workload.trace_file import save
from workloads.models import MODELS, Inputs, Model, Published


class Clock(Protocol):
    """Notes moments, and later gives the times between them."""

    description: str

    def stamp(self) -> Any: ...

    def spans(self, stamps: Sequence[Any]) -> list[float]:
        """Seconds between each stamp and the next."""
        ...


class ThreadClock:
    """CPU time of this thread only, which other load on the machine hardly changes.

    On the CPU, PyTorch runs the backward pass and its hooks in the calling thread.
    """

    description = "CPU time of one thread"

    def stamp(self) -> float:
        return time.thread_time()

    def spans(self, stamps: Sequence[float]) -> list[float]:
        return [after - before for before, after in itertools.pairwise(stamps)]


class CudaClock:
    """Events in the GPU's stream: a stamp is when the work before it was done, not when it was
    issued."""

    description = "CUDA events"

    def stamp(self) -> torch.cuda.Event:
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def spans(self, stamps: Sequence[torch.cuda.Event]) -> list[float]:
        torch.cuda.synchronize()
        return [a.elapsed_time(b) / 1e3 for a, b in itertools.pairwise(stamps)]


@dataclass(frozen=True)
class Pass:
    """One iteration: seconds by tensor name, and names in gradient-ready order."""

    forward: dict[str, float]
    backward: dict[str, float]
    ready: tuple[str, ...]


class Recorder:
    """Hooks on a model that time its forward pass by module and its backward pass by gradient."""

    def __init__(self, model: nn.Module, clock: Clock) -> None:
        self.model = model
        self.clock = clock
        self.starts: list[tuple[nn.Module, Any]] = []
        self.grads: list[tuple[str, Any]] = []
        # A tied tensor appears once, under its first name.
        self.names = {parameter: name for name, parameter in model.named_parameters()}
        for module in model.modules():
            if any(True for _ in module.parameters(recurse=False)):
                module.register_forward_pre_hook(self._module_starts)
        for parameter, name in self.names.items():
            parameter.register_post_accumulate_grad_hook(
                lambda _, name=name: self.grads.append((name, self.clock.stamp()))
            )

    def _module_starts(self, module: nn.Module, _: object) -> None:
        self.starts.append((module, self.clock.stamp()))

    def run(self, inputs: Inputs, precision: contextlib.AbstractContextManager[Any]) -> Pass:
        """One forward and backward pass, from cleared gradients, with the forward pass in
        ``precision``.

        Raises RuntimeError if a tensor has no part in the forward pass, or gets no gradient.
        """
        self.model.zero_grad(set_to_none=True)
        self.starts.clear()
        self.grads.clear()
        begin = self.clock.stamp()
        with precision:
            loss = self.model(**inputs).loss
        middle = self.clock.stamp()
        loss.backward()
        end = self.clock.stamp()
        forward = self._forward(begin, middle)
        ready = tuple(name for name, _ in self.grads)
        if set(forward) != set(self.names.values()) or sorted(ready) != sorted(forward):
            raise RuntimeError("every tensor must be used in forward and get one gradient")
        # A gradient's time counts from the previous gradient; the rest goes to the last one.
        spans = self.clock.spans([middle, *(stamp for _, stamp in self.grads[:-1]), end])
        return Pass(forward, dict(zip(ready, spans, strict=True)), ready)

    def _forward(self, begin: Any, end: Any) -> dict[str, float]:
        """Seconds by tensor, in forward order.

        A module's time lasts until the next module that owns tensors starts. So modules without
        tensors (activation, pooling, the loss) count as part of the previous one. The time is that
        of the module's first tensor. A module whose tensors have all been used adds its time to the
        last tensor's.
        """
        times: dict[str, float] = {}
        spans = self.clock.spans([begin, *(stamp for _, stamp in self.starts[1:]), end])
        booked = ""
        for (module, _), span in zip(self.starts, spans, strict=True):
            owned = [self.names[p] for p in module.parameters(recurse=False)]
            fresh = [name for name in owned if name not in times]
            times.update(dict.fromkeys(fresh, 0.0))
            booked = fresh[0] if fresh else booked
            times[booked] += span
        return times


def record(
    name: str,
    model: Model,
    batch: int,
    warmup: int,
    iterations: int,
    seed: int,
    device: str = "cpu",
) -> Trace:
    """Trace of ``iterations`` >= 2 passes on ``device`` (cpu or cuda), with times as measured.

    Raises RuntimeError if gradients do not become ready in the same order every time.
    """
    torch.manual_seed(seed)
    network = model.build()
    clock: Clock
    if device == "cuda":
        torch.backends.cudnn.benchmark = True
        # Tensor cores need channels last. Tensors without four dimensions do not change.
        network = network.to("cuda", memory_format=torch.channels_last)
        clock = CudaClock()
    else:
        torch.set_num_threads(1)
        clock = ThreadClock()
    network.train()
    recorder = Recorder(network, clock)
    passes: list[Pass] = []
    for i in range(warmup + iterations):
        inputs = {key: value.to(device) for key, value in model.inputs(batch).items()}
        passes.append(recorder.run(inputs, _precision(device)))
        forward, backward = sum(passes[-1].forward.values()), sum(passes[-1].backward.values())
        kind = "warm-up" if i < warmup else "recorded"
        print(
            f"{name}: {kind} {i + 1}: forward {forward:.3f} s, backward {backward:.3f} s",
            flush=True,
        )
    passes = passes[warmup:]
    if len({p.ready for p in passes}) > 1:
        raise RuntimeError("the order of gradients differs between iterations")
    elements = {tensor_name: p.numel() for p, tensor_name in recorder.names.items()}
    tensors = []
    for tensor_name in passes[0].forward:
        forward, forward_iqr = _middle_and_spread([p.forward[tensor_name] for p in passes])
        backward, backward_iqr = _middle_and_spread([p.backward[tensor_name] for p in passes])
        tensors.append(
            Tensor(tensor_name, elements[tensor_name], forward, backward, forward_iqr, backward_iqr)
        )
    place = {tensor.name: index for index, tensor in enumerate(tensors)}
    totals = {
        "measured_forward": [sum(p.forward.values()) for p in passes],
        "measured_backward": [sum(p.backward.values()) for p in passes],
    }
    provenance = {
        "contents": "layer sizes and timings; not captured gradients",
        "model": model.description + ", random weights",
        "input": f"random, {model.shape}",
        "loss": model.loss,
        "dtype": "float32",
        "recorded_on": f"GPU, {torch.cuda.get_device_name()}" if device == "cuda" else _processor(),
        "recorded_batch": str(batch),
        "recorded_precision": f"mixed, {_half()}" if device == "cuda" else "float32",
        "recorded_clock": clock.description,
        "recorded_with": f"Python {platform.python_version()}, torch {torch.__version__}, "
        f"transformers {transformers.__version__}",
        "recorded_at": datetime.date.today().isoformat(),
        "seed": str(seed),
        "warmup": str(warmup),
        "iterations": str(iterations),
    }
    for key, seconds in totals.items():
        median, low, high = statistics.median(seconds), min(seconds), max(seconds)
        provenance[key] = f"median {median:.3f} s, from {low:.3f} to {high:.3f} s"
    return Trace(
        name=name,
        batch=batch,
        tensors=tuple(tensors),
        ready=tuple(place[n] for n in passes[0].ready),
        provenance=provenance,
    )


def _middle_and_spread(values: Sequence[float]) -> tuple[float, float]:
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return middle, high - low


def _half() -> torch.dtype:
    return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16


def _precision(device: str) -> contextlib.AbstractContextManager[Any]:
    """Mixed precision on a GPU, as is usual in training today: gradients stay float32."""
    return torch.autocast("cuda", _half()) if device == "cuda" else contextlib.nullcontext()


def scale_to(trace: Trace, published: Published) -> Trace:
    """The trace with all times multiplied so that its computation takes as long as the published
    iteration."""
    factor = published.iteration_s / trace.compute_s
    note = (
        f"{published.iteration_s * 1e3:.3f} ms: measured times multiplied by {factor:.6f} so that "
        "forward and backward together take the published iteration"
    )
    return replace(
        trace,
        batch=published.batch,
        tensors=tuple(
            replace(
                t,
                forward_s=t.forward_s * factor,
                backward_s=t.backward_s * factor,
                forward_spread_s=t.forward_spread_s * factor,
                backward_spread_s=t.backward_spread_s * factor,
            )
            for t in trace.tensors
        ),
        provenance={
            **trace.provenance,
            "iteration_time": note,
            "iteration_time_source": published.source,
        },
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next(line.split(": ", 1)[1] for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        name = platform.machine()
    return f"CPU, {name}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Record a workload's trace from a real model.")
    parser.add_argument("model", choices=sorted(MODELS))
    parser.add_argument("out", type=Path, help="the trace file to write")
    parser.add_argument("--batch", type=int, default=8, help="samples an iteration, here")
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--iterations", type=int, default=9)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--device",
        choices=["cpu", "cuda"],
        default="cuda" if torch.cuda.is_available() else "cpu",
        help="default: the GPU where there is one",
    )
    parser.add_argument(
        "--unscaled",
        action="store_true",
        help="keep times as measured, as a GPU's always are",
    )
    args = parser.parse_args()
    if min(args.batch, args.iterations - 1) < 1 or args.warmup < 0:
        parser.error("wanted a batch of at least 1, 2 iterations or more, warmup not negative")
    model = MODELS[args.model]
    trace = record(
        args.model, model, args.batch, args.warmup, args.iterations, args.seed, args.device
    )
    if args.unscaled or args.device == "cuda":
        note = "as measured"
        trace = replace(trace, provenance={**trace.provenance, "iteration_time": note})
    else:
        trace = scale_to(trace, model.published)
    save(trace, args.out)
    print(f"{args.out}: {len(trace.tensors)} tensors, {trace.bytes} bytes, {trace.compute_s:.3f} s")


if __name__ == "__main__":
    main()
