"""Optimizers: chunks give the same bits as the whole, and SGD and Adam are PyTorch's."""

from __future__ import annotations

import numpy as np
import pytest

from testbed.experiment.schema import Training
from testbed.training.optimizer import Optimizer

STEPS, VALUES = 6, 50


def gradients():
    return np.random.default_rng(1).standard_normal((STEPS, VALUES)).astype(np.float32)


@pytest.mark.parametrize("name", ["sgd", "adam"])
def test_any_cut_gives_the_same_bits(name):
    told = Training(optimizer=name, rate=0.1)
    whole, cut = Optimizer(told, VALUES), Optimizer(told, VALUES)
    one, other = np.zeros(VALUES, np.float32), np.zeros(VALUES, np.float32)
    for gradient in gradients():
        one = whole.step(one, gradient, slice(None))
        for part in (slice(30, 50), slice(0, 30)):
            other[part] = cut.step(other, gradient[part], part)
    assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize("name", ["sgd", "adam"])
def test_a_step_that_is_not_kept_changes_nothing(name):
    told = Training(optimizer=name, rate=0.1)
    one, other = Optimizer(told, VALUES), Optimizer(told, VALUES)
    zeros = np.zeros(VALUES, np.float32)
    for gradient in gradients():
        other.step(zeros, gradient, slice(None), keep=False)
        assert (
            one.step(zeros, gradient, slice(None)).tobytes()
            == other.step(zeros, gradient, slice(None)).tobytes()
        )


@pytest.mark.parametrize("name", ["sgd", "adam"])
def test_steps_are_those_of_pytorch(name):
    torch = pytest.importorskip("torch")
    told = Training(optimizer=name, rate=0.1)
    parameter = torch.nn.Parameter(torch.zeros(VALUES))
    theirs = (
        torch.optim.SGD([parameter], 0.1, momentum=0.9)
        if name == "sgd"
        else torch.optim.Adam([parameter], 0.1)
    )
    ours, found = Optimizer(told, VALUES), np.zeros(VALUES, np.float32)
    for gradient in gradients():
        parameter.grad = torch.from_numpy(gradient)
        theirs.step()
        found = ours.step(found, gradient, slice(None))
    assert found == pytest.approx(parameter.detach().numpy(), rel=1e-4, abs=1e-6)
