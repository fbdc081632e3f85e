"""Record in a trace how important each tensor is (needs torch, transformers, scikit-learn).

    python -m workloads.importance resnet50

A tensor's importance, by which OSP orders tensors, is PGP: the sum over its values of the magnitude
of parameter times gradient. The model is trained as ``workloads/sample.py`` does. After some steps,
the products of several batches are taken with the same parameters, and their mean goes into the
header of the model's trace. Sizes and times in the trace do not change.
"""

from __future__ import annotations

import argparse
import datetime
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from testbed.workload.catalogue import FAMILIES, WORKLOADS
from testbed.workload.trace import Trace
from testbed.workload.trace_file import save
from workloads.sample import Training


def record(name: str, batch: int, steps: int, batches: int, seed: int) -> Trace:
    """The shipped trace of ``name`` with the products after ``steps`` steps of training."""
    training = Training(name, batch, seed)
    for step in range(1, steps + 1):
        training.step(step)
    products = np.zeros(len(training.parameters))
    for _ in range(batches):
        training.gradient()
        products += [_product(parameter) for parameter in training.parameters]
    losses = training.losses
    note = (
        f"after {steps} steps of training from random weights, the mean of {batches} batches of"
        f" {batch}; {training.source}; loss from {losses[0]:.3f} to {losses[steps - 1]:.3f};"
        f" {repr(training.optimizer).split(' (')[0]}, rate {training.optimizer.defaults['lr']};"
        f" float32, torch {torch.__version__}; seed {seed}; {datetime.date.today().isoformat()}"
    )
    pgp = " ".join(f"{product:.6g}" for product in products / batches)
    return replace(
        training.trace, provenance={**training.trace.provenance, "pgp": pgp, "pgp_recorded": note}
    )


def _product(parameter: torch.Tensor) -> float:
    if parameter.grad is None:
        return 0.0
    return (parameter.detach() * parameter.grad).abs().sum(dtype=torch.float64).item()


def main() -> None:
    parser = argparse.ArgumentParser(description="Record the importance of a model's tensors.")
    parser.add_argument("model", choices=sorted(FAMILIES))
    parser.add_argument("out", type=Path, nargs="?", help="default: the model's shipped trace")
    parser.add_argument("--batch", type=int, default=8, help="samples of a step")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--batches", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    out = args.out or WORKLOADS / f"{args.model}.trace"
    save(record(args.model, args.batch, args.steps, args.batches, args.seed), out)
    print(f"{out}: the importance of its tensors recorded")


if __name__ == "__main__":
    main()
