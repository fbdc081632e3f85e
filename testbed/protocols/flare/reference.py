"""The reference of sparse Flare's switch."""

from __future__ import annotations

import numpy as np

from testbed.protocols.reference import DATA, RESULT, Model, Values
from testbed.protocols.switchml.reference import handle

NOTHING = 0x7FFF_FFFF
"""The index of an entry without a pair; all indices have 31 bits."""


def merge(some: Values, others: Values) -> Values:
    """int32[2 * entries]: in each entry the pair with the lower index, or their sum if both are
    equal."""
    pairs = np.stack([some, others]).reshape(2, -1, 2)
    indices, values = pairs[..., 0] & NOTHING, pairs[..., 1].astype(np.int64)
    least = indices.min(0)
    sums = np.where(indices == least, values, 0).sum(0)
    merged: Values = np.stack([least, sums], -1).astype(np.int32).ravel()  # sums wrap around
    return merged


MODEL = Model(frozenset({DATA, RESULT}), handle, combine=merge)
