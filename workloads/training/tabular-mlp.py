"""A small network on a table: scikit-learn's breast cancer data (30 columns, 2 classes)."""

import torch
from sklearn.datasets import load_breast_cancer
from torch import nn
from torch.nn.functional import cross_entropy

metric = "accuracy"

_table = load_breast_cancer()
_order = torch.randperm(len(_table.target), generator=torch.Generator().manual_seed(0))
_train, _test = _order[114:], _order[:114]
_raw = torch.tensor(_table.data, dtype=torch.float32)
_inputs = (_raw - _raw[_train].mean(0)) / _raw[_train].std(0)
_targets = torch.tensor(_table.target)


def model():
    return nn.Sequential(
        nn.Linear(30, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2)
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
