"""A small convolutional network on scikit-learn's handwritten digits (8 x 8, 10 classes)."""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy

metric = "accuracy"

_digits = load_digits()
_inputs = torch.tensor(_digits.images, dtype=torch.float32).unsqueeze(1) / 8 - 1
_targets = torch.tensor(_digits.target)
_order = torch.randperm(len(_targets), generator=torch.Generator().manual_seed(0))
_train, _test = _order[360:], _order[:360]


def model():
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(512, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )


def data(rank, world):
    own = _train[rank::world]
    return _inputs[own], _targets[own]


def loss(model, inputs, targets):
    return cross_entropy(model(inputs), targets)


def evaluate(model):
    place = next(model.parameters()).device
    right = model(_inputs[_test].to(place)).argmax(1) == _targets[_test].to(place)
    return right.float().mean()
