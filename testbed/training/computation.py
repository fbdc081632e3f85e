"""The workers' computation: real gradients of a script's model, one worker after another.

On the CPU it uses one thread and PyTorch's deterministic algorithms, so that the same seed gives
the same bits. Other devices use deterministic algorithms where PyTorch has them.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from testbed.training.device import CPU
from testbed.training.errors import TrainingError
from testbed.training.script import Script
from testbed.workload.trace import Trace
from testbed.workload.values import Float32


class Computation:
    """A model, whose parameters are exchanged for those of the worker that computes.

    Args:
        device: the device of PyTorch's that computes. It is first used by `gradient` or `evaluate`,
            because a process that has used a GPU cannot be forked.

    ``tensors``: name and number of values of each parameter, in the model's order. Raises
    TrainingError if the script cannot be used.
    """

    def __init__(
        self, script: Script, workers: int, batch: int, seed: int, device: str = CPU
    ) -> None:
        import torch

        torch.set_num_threads(1)
        torch.use_deterministic_algorithms(True)
        self._script, self._batch, self._seed = script, batch, seed
        self._device, self._is_there = device, device == CPU
        torch.manual_seed(seed)
        self._model = script.call("model")
        if not isinstance(self._model, torch.nn.Module):
            raise TrainingError(f"{script.path}: model() found no torch.nn.Module, wanted one")
        named = [each for each in self._model.named_parameters() if each[1].requires_grad]
        if not named:
            raise TrainingError(
                f"{script.path}: model() found no parameter that learns, wanted at least one"
            )
        for name, parameter in named:
            if torch.nn.parameter.is_lazy(parameter) or not parameter.numel():
                raise TrainingError(
                    f"{script.path}: model(): parameter {name} has no values, wanted at least one;"
                    " give layers their sizes"
                )
            if parameter.dtype != torch.float32 or parameter.device.type != "cpu":
                raise TrainingError(
                    f"{script.path}: model(): parameter {name} is {parameter.dtype} on"
                    f" {parameter.device}, wanted torch.float32 on cpu, which can be summed"
                )
        self.tensors = tuple((name, parameter.numel()) for name, parameter in named)
        self._join()
        self._data = [self._shard(rank, workers) for rank in range(workers)]

    @property
    def initial(self) -> Float32:
        """The parameters, float32[values], as ``model()`` made them, or as they are now."""
        values: Float32 = self._flat.cpu().numpy().copy()
        return values

    @property
    def samples(self) -> int:
        """The number of samples of all workers."""
        return sum(len(inputs) for inputs, _ in self._data)

    def gradient(self, parameters: Float32, worker: int, iteration: int) -> tuple[Float32, float]:
        """A worker's gradient, float32[values], on its batch of ``iteration``, and the loss."""
        import torch

        script = self._script
        self._set(parameters)
        inputs, targets = self._data[worker]
        chosen = torch.from_numpy(self._chosen(worker, iteration, len(inputs))).to(inputs.device)
        # torch.manual_seed also seeds the device, but notes a call for each absent GPU.
        on_cpu = self._device == CPU
        seed = torch.default_generator.manual_seed if on_cpu else torch.manual_seed
        with script.running("loss()"):
            seed(_seed(self._seed, worker, iteration))
            self._model.train()
            for each in self._parameters:
                each.grad = None
            loss = script.module.loss(self._model, inputs[chosen], targets[chosen])
            loss.backward()
            found = float(loss.detach())
        parts = [
            (torch.zeros_like(each) if each.grad is None else each.grad).reshape(-1)
            for each in self._parameters
        ]
        gradient: Float32 = torch.cat(parts).cpu().numpy()
        if not (math.isfinite(found) and np.isfinite(gradient).all()):
            raise TrainingError(
                f"{script.path}: the loss or gradient of worker {worker} in iteration"
                f" {iteration + 1} is not finite, wanted numbers that can be summed; lower the"
                " learning rate"
            )
        return gradient, found

    def evaluate(self, parameters: Float32) -> float:
        """The script's metric with these parameters."""
        import torch

        self._set(parameters)
        self._model.eval()
        with torch.no_grad(), self._script.running("evaluate()"):
            found = float(self._script.module.evaluate(self._model))
        if not math.isfinite(found):
            raise TrainingError(
                f"{self._script.path}: evaluate() found {found}, wanted a finite number"
            )
        return found

    def _set(self, parameters: Float32) -> None:
        import torch

        self._move()
        self._flat.copy_(torch.from_numpy(parameters))

    def _move(self) -> None:
        """Move model and samples to the device, the first time."""
        import torch

        if self._is_there:
            return
        self._is_there = True
        # Without it cuBLAS has no deterministic algorithms.
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True, warn_only=True)
        with self._script.running(f"the move to {self._device}"):
            self._model.to(self._device)
            self._data = [
                (inputs.to(self._device), targets.to(self._device))
                for inputs, targets in self._data
            ]
            self._join()

    def _join(self) -> None:
        """Make the parameters parts of one vector, so that they are exchanged at once."""
        import torch

        self._parameters = [each for each in self._model.parameters() if each.requires_grad]
        self._flat = torch.cat([each.detach().reshape(-1) for each in self._parameters])
        at = 0
        for each in self._parameters:
            each.data = self._flat[at : at + each.numel()].view(each.shape)
            at += each.numel()

    def _shard(self, rank: int, world: int) -> tuple[Any, Any]:
        import torch

        found = self._script.call("data", rank, world)
        said = f"{self._script.path}: data({rank}, {world})"
        pair = isinstance(found, Sequence) and len(found) == 2
        if not pair or not all(isinstance(each, torch.Tensor) and each.ndim for each in found):
            raise TrainingError(
                f"{said}: wanted a pair of tensors, inputs and targets, whose first dimension is"
                " the sample"
            )
        inputs, targets = found
        if len(inputs) != len(targets) or len(inputs) < self._batch:
            raise TrainingError(
                f"{said}: found {len(inputs)} inputs and {len(targets)} targets, wanted as many of"
                f" both, and at least one batch of {self._batch}; take a smaller"
                " batch, or fewer workers"
            )
        return inputs, targets

    def _chosen(self, worker: int, iteration: int, samples: int) -> Any:
        """The samples of a batch: a new random order in each epoch, without the last few."""
        epoch, place = divmod(iteration, samples // self._batch)
        order = np.random.default_rng([self._seed, worker, epoch]).permutation(samples)
        return order[place * self._batch : (place + 1) * self._batch]


def _seed(*numbers: int) -> int:
    return int(np.random.SeedSequence(numbers).generate_state(1)[0])


def check_trace(tensors: Sequence[tuple[str, int]], trace: Trace, script: Path) -> None:
    """Raise TrainingError unless ``trace`` has the model's parameters in the model's order."""
    wanted = [(each.name, each.elements) for each in trace.tensors]
    if trace.dtype_bytes != 4:
        raise TrainingError(
            f"{trace.name}: found values of {trace.dtype_bytes} bytes, wanted float32 to learn"
        )
    if list(tensors) != wanted:
        differ = [pair for pair in zip(tensors, wanted, strict=False) if pair[0] != pair[1]]
        said = (
            f"{differ[0][0][0]} ({differ[0][0][1]} values) for {differ[0][1][0]}"
            f" ({differ[0][1][1]})"
            if differ
            else f"{len(tensors)} parameters for {len(wanted)}"
        )
        raise TrainingError(
            f"{script}: its model does not fit the workload {trace.name}: found {said}; make the"
            f" trace with: ina-testbed trace script {script} --compute TIME OUT.trace"
        )
