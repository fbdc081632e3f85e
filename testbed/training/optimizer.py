"""Optimizers on flat vectors, part by part: servers update parameters chunk by chunk.

Each value depends only on its own gradients, so that any division into chunks gives the same bits.
"""

from __future__ import annotations

import numpy as np

from testbed.experiment.schema import Training
from testbed.workload.values import Float32


class Optimizer:
    """SGD with momentum as PyTorch defines it (Sutskever et al., ICML 2013), or Adam (Kingma and
    Ba, ICLR 2015, with PyTorch's defaults), in float32.

    ``elements``: parameters in the vector.
    """

    def __init__(self, told: Training, elements: int) -> None:
        self._adam = told.optimizer == "adam"
        self._rate, self._momentum = np.float32(told.rate), np.float32(told.momentum)
        self._first = np.zeros(elements, np.float32)
        self._second = np.zeros(elements if self._adam else 0, np.float32)
        self._steps = np.zeros(elements if self._adam else 0, np.int32)

    def step(
        self, parameters: Float32, gradient: Float32, part: slice, keep: bool = True
    ) -> Float32:
        """The ``part`` of ``parameters`` after a step with the part's ``gradient``.

        Without ``keep``, the optimizer's state does not change.
        """
        first = self._first[part]
        if not self._adam:
            first = self._momentum * first + gradient
            if keep:
                self._first[part] = first
            stepped: Float32 = parameters[part] - self._rate * first
            return stepped
        least, most = np.float32(0.9), np.float32(0.999)
        one = np.float32(1)
        first = least * first + (one - least) * gradient
        second = most * self._second[part] + (one - most) * gradient * gradient
        steps = self._steps[part] + 1
        if keep:
            self._first[part], self._second[part], self._steps[part] = first, second, steps
        # In float64, and then rounded, because powers of float32 differ between machines.
        first_bias = (1 - 0.9 ** steps.astype(np.float64)).astype(np.float32)
        second_bias = (1 - 0.999 ** steps.astype(np.float64)).astype(np.float32)
        root = np.sqrt(second / second_bias) + np.float32(1e-8)
        moved: Float32 = parameters[part] - self._rate * (first / first_bias) / root
        return moved
