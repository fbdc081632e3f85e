"""Record a workload's trace from a real model (needs the ``record`` extra: torch, transformers).

    python workloads/record.py resnet50 workloads/resnet50.trace

The model is built from its configuration with random weights; nothing is downloaded. Real forward
and backward passes run on random input, and hooks note when each module starts and when each
gradient is ready. No gradient value is kept.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
import transformers
from torch import nn

from testbed.workload.trace import Tensor, Trace, save

Inputs = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Published:
    """One GPU's training throughput as published, and where."""

    batch: int
    samples_per_s: float
    source: str

    @property
    def iteration_s(self) -> float:
        return self.batch / self.samples_per_s


@dataclass(frozen=True)
class Model:
    """How to build a model and its input; ``published`` is what its times are scaled to."""

    build: Callable[[], nn.Module]
    inputs: Callable[[int], Inputs]
    description: str
    shape: str
    loss: str
    published: Published


def _images(batch: int) -> Inputs:
    return {
        "pixel_values": torch.randn(batch, 3, 224, 224),
        "labels": torch.randint(0, 1000, (batch,)),
    }


def _sentences(batch: int, length: int = 128, vocabulary: int = 30522) -> Inputs:
    words = torch.randint(0, vocabulary, (batch, length))
    # As in pre-training, 15 % of the words are to be guessed; -100 is left out of the loss.
    hidden = torch.rand(batch, length) < 0.15
    return {
        "input_ids": words,
        "attention_mask": torch.ones_like(words),
        "token_type_ids": torch.zeros_like(words),
        "labels": torch.where(hidden, words, torch.full_like(words, -100)),
        "next_sentence_label": torch.randint(0, 2, (batch,)),
    }


def _resnet50() -> nn.Module:
    config = transformers.ResNetConfig(
        embedding_size=64,
        hidden_sizes=[256, 512, 1024, 2048],
        depths=[3, 4, 6, 3],
        layer_type="bottleneck",
        num_labels=1000,
    )
    return transformers.ResNetForImageClassification(config)


def _bert_base() -> nn.Module:
    return transformers.BertForPreTraining(transformers.BertConfig())


MODELS = {
    "resnet50": Model(
        build=_resnet50,
        inputs=_images,
        description="ResNet-50 v1.5, 1000 classes (transformers ResNetForImageClassification)",
        shape="3 x 224 x 224",
        loss="cross entropy",
        published=Published(
            batch=256,
            samples_per_s=1200,
            source="1200 img/s on 1 x V100 16 GB (DGX-1), mixed precision: "
            "NVIDIA/DeepLearningExamples, "
            "PyTorch/Classification/ConvNets/resnet50v1.5/README.md, 'Training performance: "
            "NVIDIA DGX-1 16GB', pytorch-21.03; batch 256 a GPU is that of the same repository's "
            "PyTorch/Classification/ConvNets/configs.yml",
        ),
    ),
    "bert-base": Model(
        build=_bert_base,
        inputs=_sentences,
        description="BERT-base uncased with its pre-training heads, masked words (decoder tied to "
        "the word embedding) and next sentence (transformers BertForPreTraining)",
        shape="128 words",
        loss="masked-word plus next-sentence cross entropy, 15 % of words masked",
        published=Published(
            batch=96,
            samples_per_s=641.511,
            source="641.511 sequences/s of 128 words, batch 96, on 1 x V100-SXM2 32 GB, mixed "
            "precision, pre-training phase 1 with NVIDIA's PyTorch code: PaddlePaddle/Perf, "
            "Bert/OtherReports/PyTorch/README.md, table of results",
        ),
    ),
}


@dataclass(frozen=True)
class Pass:
    """One iteration: seconds by tensor name, and names in gradient-ready order."""

    forward: dict[str, float]
    backward: dict[str, float]
    ready: tuple[str, ...]


class Recorder:
    """Hooks on a model that time its forward by module and its backward by gradient.

    Time is the CPU time of this one thread, which other load on the machine does not change much.
    On the CPU, PyTorch runs backward and its hooks in the thread that calls it.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.starts: list[tuple[nn.Module, float]] = []
        self.grads: list[tuple[str, float]] = []
        # A tied tensor appears once, under its first name.
        self.names = {parameter: name for name, parameter in model.named_parameters()}
        for module in model.modules():
            if any(True for _ in module.parameters(recurse=False)):
                module.register_forward_pre_hook(self._module_starts)
        for parameter, name in self.names.items():
            parameter.register_post_accumulate_grad_hook(
                lambda _, name=name: self.grads.append((name, time.thread_time()))
            )

    def _module_starts(self, module: nn.Module, _: object) -> None:
        self.starts.append((module, time.thread_time()))

    def run(self, inputs: Inputs) -> Pass:
        """One forward and backward pass, from cleared gradients.

        Raises RuntimeError where a tensor takes no part in forward or gets no gradient.
        """
        self.model.zero_grad(set_to_none=True)
        self.starts.clear()
        self.grads.clear()
        begin = time.thread_time()
        loss = self.model(**inputs).loss
        middle = time.thread_time()
        loss.backward()
        end = time.thread_time()
        forward = self._forward(begin, middle)
        ready = tuple(name for name, _ in self.grads)
        if set(forward) != set(self.names.values()) or sorted(ready) != sorted(forward):
            raise RuntimeError("every tensor must be used in forward and get one gradient")
        # The time of a gradient is that since the one before it; the tail goes to the last.
        stamps = [middle, *(stamp for _, stamp in self.grads[:-1]), end]
        spans = [after - before for before, after in itertools.pairwise(stamps)]
        return Pass(forward, dict(zip(ready, spans, strict=True)), ready)

    def _forward(self, begin: float, end: float) -> dict[str, float]:
        """Seconds by tensor, in forward order.

        A module's time runs until the next one that owns tensors starts, so what has no tensors
        (activation, pooling, the loss) counts to the module before it. It is booked on the
        module's first tensor; a module whose tensors have all been used adds to the last one's.
        """
        times: dict[str, float] = {}
        stamps = [begin, *(stamp for _, stamp in self.starts[1:]), end]
        booked = ""
        for (module, _), start, stop in zip(self.starts, stamps, stamps[1:], strict=False):
            owned = [self.names[p] for p in module.parameters(recurse=False)]
            fresh = [name for name in owned if name not in times]
            times.update(dict.fromkeys(fresh, 0.0))
            booked = fresh[0] if fresh else booked
            times[booked] += stop - start
        return times


def _middle_and_spread(values: Sequence[float]) -> tuple[float, float]:
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return middle, high - low


def record(name: str, model: Model, batch: int, warmup: int, iterations: int, seed: int) -> Trace:
    """Trace of ``iterations`` >= 2 passes, its times as measured.

    Raises RuntimeError where gradients do not become ready in the same order every time.
    """
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    network = model.build()
    network.train()
    recorder = Recorder(network)
    passes: list[Pass] = []
    for i in range(warmup + iterations):
        passes.append(recorder.run(model.inputs(batch)))
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
        "recorded_on": f"CPU, {_processor()}",
        "recorded_batch": str(batch),
        "recorded_clock": "CPU time of one thread",
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


def scale_to(trace: Trace, published: Published) -> Trace:
    """The trace with all times multiplied so that its compute takes the published iteration."""
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
        return next(line.split(": ", 1)[1] for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.machine()


def main() -> None:
    parser = argparse.ArgumentParser(description="Record a workload's trace from a real model.")
    parser.add_argument("model", choices=sorted(MODELS))
    parser.add_argument("out", type=Path, help="the trace file to write")
    parser.add_argument("--batch", type=int, default=8, help="samples an iteration, here")
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--iterations", type=int, default=9)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--unscaled", action="store_true", help="keep the times as measured here")
    args = parser.parse_args()
    if min(args.batch, args.iterations - 1) < 1 or args.warmup < 0:
        parser.error("wanted a batch of at least 1, 2 iterations or more, warmup not negative")
    model = MODELS[args.model]
    trace = record(args.model, model, args.batch, args.warmup, args.iterations, args.seed)
    if args.unscaled:
        note = "as measured"
        trace = replace(trace, provenance={**trace.provenance, "iteration_time": note})
    else:
        trace = scale_to(trace, model.published)
    save(trace, args.out)
    print(f"{args.out}: {len(trace.tensors)} tensors, {trace.bytes} bytes, {trace.compute_s:.3f} s")


if __name__ == "__main__":
    main()
