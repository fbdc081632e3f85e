"""A small residual network (He et al., CVPR 2016) on scikit-learn's handwritten digits.

Group instead of batch normalisation: statistics of batches would not be synchronised.
"""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy, relu

metric = "accuracy"

_digits = load_digits()
_inputs = torch.tensor(_digits.images, dtype=torch.float32).unsqueeze(1) / 8 - 1
_targets = torch.tensor(_digits.target)
_order = torch.randperm(len(_targets), generator=torch.Generator().manual_seed(0))
_train, _test = _order[360:], _order[:360]


class Block(nn.Module):
    def __init__(self, before, after, stride):
        super().__init__()
        self.first = nn.Conv2d(before, after, 3, stride, padding=1, bias=False)
        self.first_norm = nn.GroupNorm(4, after)
        self.second = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.second_norm = nn.GroupNorm(4, after)
        same = stride == 1 and before == after
        self.around = nn.Identity() if same else nn.Conv2d(before, after, 1, stride, bias=False)

    def forward(self, values):
        found = self.second_norm(self.second(relu(self.first_norm(self.first(values)))))
        return relu(found + self.around(values))


def model():
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1, bias=False),
        nn.GroupNorm(4, 16),
        nn.ReLU(),
        Block(16, 16, 1),
        Block(16, 32, 2),
        Block(32, 64, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
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
