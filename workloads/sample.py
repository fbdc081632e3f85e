"""Take a sample of real gradients from real training (needs torch, transformers, scikit-learn).

    python -m workloads.sample resnet50 workloads/resnet50.gradients.npz

A model of ``workloads/models.py`` is trained from random weights on a small real data set that
comes with a Python package. Images are scikit-learn's handwritten digits (UCI, "Optical Recognition
of Handwritten Digits", 1797 of 8 x 8 pixels), enlarged to the model's input. Text is the Python
language reference in the standard library (``pydoc_data.topics``), split into words by a byte-pair
encoding that is trained on it. At some steps, the gradients of several data-parallel workers are
taken, with the same weights and different batches. Blocks of consecutive values are kept, in the
trace's gradient-ready order and at the same places for all workers.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import nn

from testbed.workload.catalogue import FAMILIES, load
from workloads.models import MODELS, Inputs

BLOCK = 256
Batches = Callable[[int], Inputs]


def digits(seed: int) -> tuple[Batches, str]:
    import sklearn
    from sklearn.datasets import load_digits

    data = load_digits()
    images = torch.tensor(data.images, dtype=torch.float32)[:, None]
    images = (images - images.mean()) / images.std()
    labels = torch.tensor(data.target)
    generator = torch.Generator().manual_seed(seed)

    def batches(size: int) -> Inputs:
        chosen = torch.randint(len(images), (size,), generator=generator)
        large = nn.functional.interpolate(images[chosen], size=224, mode="bilinear")
        return {"pixel_values": large.expand(-1, 3, -1, -1), "labels": labels[chosen]}

    return batches, f"handwritten digits of scikit-learn {sklearn.__version__}, 224 x 224"


def _words() -> tuple[torch.Tensor, str]:
    """The language reference as word numbers, and its description. Number 0 is the mask."""
    from pydoc_data import topics

    import tokenizers

    text = "\n".join(topics.topics[key] for key in sorted(topics.topics))
    tokenizer = tokenizers.ByteLevelBPETokenizer()
    # Beyond this size, few words occur more than once. Each model's vocabulary has room for it.
    tokenizer.train_from_iterator([text], vocab_size=16384, special_tokens=["[MASK]"])
    words = torch.tensor(tokenizer.encode(text).ids)
    source = f"language reference of Python {platform.python_version()} (pydoc_data.topics)"
    return words, f"{source}, {len(words)} words of {tokenizer.get_vocab_size()} different ones"


def sentences(seed: int) -> tuple[Batches, str]:
    """Pairs of sequences of 64 words. In half of the pairs the second follows the first; 15 % of
    words are masked."""
    words, source = _words()
    generator = torch.Generator().manual_seed(seed)

    def batches(size: int) -> Inputs:
        places = torch.randint(len(words) - 128, (size, 2), generator=generator)
        follows = torch.rand(size, generator=generator) < 0.5
        second = torch.where(follows, places[:, 0] + 64, places[:, 1])
        starts = torch.stack([places[:, 0], second], dim=1)
        pairs = words[starts[..., None] + torch.arange(64)].flatten(1)
        hidden = torch.rand(pairs.shape, generator=generator) < 0.15
        return {
            "input_ids": pairs.masked_fill(hidden, 0),
            "attention_mask": torch.ones_like(pairs),
            "token_type_ids": (torch.arange(128) >= 64).long().expand(size, -1),
            "labels": pairs.masked_fill(~hidden, -100),
            "next_sentence_label": (~follows).long(),
        }

    return batches, source + ", sequences of 128"


def text(seed: int, length: int = 1024) -> tuple[Batches, str]:
    words, source = _words()
    generator = torch.Generator().manual_seed(seed)

    def batches(size: int) -> Inputs:
        starts = torch.randint(len(words) - length, (size, 1), generator=generator)
        cut = words[starts + torch.arange(length)]
        return {"input_ids": cut, "labels": cut}

    return batches, f"{source}, sequences of {length}"


SOURCES = {"resnet50": digits, "vgg16": digits, "bert-base": sentences, "gpt2": text}
RATES = {"resnet50": 0.001, "vgg16": 0.003, "bert-base": 1e-4, "gpt2": 1e-4}
"""The data and the learning rates, by family of models."""


class Training:
    """A model trained from random weights, with the parameters in ``trace``'s (forward) order."""

    def __init__(self, name: str, batch: int, seed: int) -> None:
        torch.manual_seed(seed)
        torch.set_num_threads(1)
        family = FAMILIES[name]
        self.trace = load(name)
        self.losses: list[float] = []
        self._name, self._batch = name, batch
        self._batches, self.source = SOURCES[family](seed)
        self._network = MODELS[name].build()
        self._network.train()
        weights = self._network.parameters()
        self.optimizer: torch.optim.Optimizer = (
            torch.optim.SGD(weights, lr=RATES[family], momentum=0.9)
            if SOURCES[family] is digits
            else torch.optim.AdamW(weights, lr=RATES[family])
        )
        by_name = dict(self._network.named_parameters())
        self.parameters = [by_name[tensor.name] for tensor in self.trace.tensors]

    def gradient(self) -> None:
        """Give each parameter the gradient of the next batch."""
        self._network.zero_grad(set_to_none=True)
        loss = self._network(**self._batches(self._batch)).loss
        loss.backward()
        self.losses.append(loss.item())

    def step(self, number: int) -> None:
        """Train on the next batch."""
        self.gradient()
        self.optimizer.step()
        print(f"{self._name}: step {number}: loss {self.losses[-1]:.3f}", flush=True)


def take(
    name: str, batch: int, workers: int, blocks: int, steps: tuple[int, ...], seed: int
) -> dict[str, np.ndarray]:
    """``values``, float32[workers, blocks x steps, BLOCK], and the origin of each block.

    ``positions``: the position of a block's first value in gradient-ready order. ``steps``: the
    step at which it was taken.
    """
    training = Training(name, batch, seed)
    trace, losses, optimizer = training.trace, training.losses, training.optimizer
    order = [training.parameters[i] for i in trace.ready]
    rng = np.random.default_rng(seed)
    kept, positions = [], []
    for step in range(1, max(steps) + 1):
        if step in steps:
            places = np.sort(rng.choice(trace.elements // BLOCK, blocks, replace=False)) * BLOCK
            positions.append(places)
            shares = []
            for _ in range(workers):
                training.gradient()
                flat = torch.cat([p.grad.flatten() for p in order if p.grad is not None]).numpy()
                shares.append(flat[places[:, None] + np.arange(BLOCK)])
            kept.append(np.stack(shares))
        training.step(step)
    provenance = {
        "model": f"{MODELS[name].description}, trained from random weights",
        "data": training.source,
        "loss": f"from {losses[0]:.3f} to {losses[-1]:.3f} in {max(steps)} steps",
        "batch": f"{batch} a worker",
        "optimizer": repr(optimizer).split(" (")[0] + f", rate {optimizer.defaults['lr']}",
        "precision": "float32",
        "recorded_with": f"Python {platform.python_version()}, torch {torch.__version__}",
        "recorded_at": datetime.date.today().isoformat(),
        "seed": str(seed),
    }
    return {
        "values": np.concatenate(kept, axis=1).astype(np.float32),
        "positions": np.concatenate(positions),
        "steps": np.repeat(np.array(steps), blocks),
        "provenance": np.array(json.dumps(provenance)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Take a sample of a model's real gradients.")
    parser.add_argument("model", choices=sorted(SOURCES))
    parser.add_argument("out", type=Path, help="the .npz file to write")
    parser.add_argument("--batch", type=int, default=8, help="samples a worker and step")
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--blocks", type=int, default=64, help=f"of {BLOCK} values, a step")
    parser.add_argument("--steps", type=int, nargs="+", default=[5, 20])
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    arrays = take(args.model, args.batch, args.workers, args.blocks, tuple(args.steps), args.seed)
    np.savez_compressed(args.out, **arrays)
    print(f"{args.out}: {arrays['values'].shape}, {args.out.stat().st_size} bytes")


if __name__ == "__main__":
    main()
