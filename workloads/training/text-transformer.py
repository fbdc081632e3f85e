"""A small character-level transformer on the Python language reference of the standard library.

``pydoc_data.topics`` is part of every CPython. The metric is the loss, in nats a character, on
the last tenth of the text, which no worker has.
"""

from pydoc_data.topics import topics

import torch
from torch import nn
from torch.nn.functional import cross_entropy

metric = "loss"
higher_is_better = False

_LENGTH = 32
_letters = [chr(code) for code in range(32, 127)]
_place = {letter: place for place, letter in enumerate(_letters)}
_text = " ".join(" ".join(topics[name].split()) for name in sorted(topics))[:200_000]
_codes = torch.tensor([_place[letter] for letter in _text if letter in _place])
_windows = _codes[: len(_codes) // (_LENGTH + 1) * (_LENGTH + 1)].view(-1, _LENGTH + 1)
_cut = len(_windows) * 9 // 10


class Transformer(nn.Module):
    def __init__(self, width=48, heads=4, layers=2):
        super().__init__()
        self.letters = nn.Embedding(len(_letters), width)
        self.places = nn.Parameter(torch.randn(_LENGTH, width) * 0.02)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(
                width, heads, 4 * width, 0.0, batch_first=True, norm_first=True
            )
            for _ in range(layers)
        )
        self.norm = nn.LayerNorm(width)
        self.out = nn.Linear(width, len(_letters))

    def forward(self, codes):
        hidden = self.letters(codes) + self.places
        mask = nn.Transformer.generate_square_subsequent_mask(_LENGTH, device=codes.device)
        for block in self.blocks:
            hidden = block(hidden, src_mask=mask, is_causal=True)
        return self.out(self.norm(hidden))


def model():
    return Transformer()


def data(rank, world):
    own = _windows[:_cut][rank::world]
    return own[:, :-1], own[:, 1:]


def loss(model, inputs, targets):
    return cross_entropy(model(inputs).flatten(0, 1), targets.flatten())


def evaluate(model):
    held = _windows[_cut:][:256].to(model.places.device)
    return loss(model, held[:, :-1], held[:, 1:])
