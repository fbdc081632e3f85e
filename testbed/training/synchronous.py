"""Training with an all-reduce in every iteration, all at once (BSP) or in two stages (OSP).

With two stages, the sums of deferred tensors arrive one iteration later. Until then a worker has
stale values of these parameters. With the correction by local gradients (LGP of OSP, Chen et al.,
ICPP 2023), it has their values after a step with its own gradient instead; the sum then replaces
that step. The paper's text was not available, so the correction is our reading of its abstract; the
local step includes momentum.
"""

from __future__ import annotations

from time import monotonic

import numpy as np
import numpy.typing as npt

from testbed.experiment.schema import Job
from testbed.training.computation import Computation
from testbed.training.curve import Point, Since, digest
from testbed.training.optimizer import Optimizer
from testbed.training.places import Places
from testbed.training.quantised import Quantised, quantised
from testbed.workload.gradients import Gradients
from testbed.workload.quantise import Float32, Int32

_LASTING = 3
"""How many iterations' gradients are kept: all ranks are within two iterations of one another."""


class Synchronous(Gradients):
    """The gradients of a job that learns, computed when the first worker needs them.

    The first worker that has an iteration's sums hands them over (`take`). The parameters follow
    from these sums, that is, from the integers that arrived. The other workers' sums are compared
    with the local sum. If workers are processes of their own, each does this on its own copy. With
    ``evaluates`` there are `points`.
    """

    def __init__(
        self,
        job: Job,
        workers: int,
        places: Places,
        computation: Computation,
        seed: int,
        evaluates: bool = True,
    ) -> None:
        assert job.training is not None
        super().__init__(seed, workers, places.elements)
        self._job, self._places, self._computation = job, places, computation
        self._corrects = job.training.correction == "local_gradient"
        self._every, self._evaluates = job.training.evaluate_every, evaluates
        self._last = job.warmup + job.iterations
        self._optimizer = Optimizer(job.training, places.elements)
        self.parameters: Float32 = places.spread(computation.initial)
        """The parameters after the last iteration's sums, in the job's order."""
        self.points: list[Point] = []
        self._since = Since()
        self._made: dict[int, Quantised] = {}
        self._local: dict[int, Float32] = {}
        self._taken = 0
        self._now, self._later = ~places.deferred, places.deferred
        self._share = float(self._later.mean())
        self._note(0)

    def learn(self) -> None:
        """Do all iterations with local sums, without a network."""
        for iteration in range(self._taken, self._last):
            total = self._quantised(iteration).total.copy()
            total[self._later] = self._sum_of(iteration - 1)[self._later]
            self.take(0, iteration, total)

    def take(self, rank: int, iteration: int, received: Int32) -> None:
        if iteration < self._taken:
            return
        now = self._quantised(iteration)
        self._step(now.mean(received), self._now)
        if iteration > 0 and self._share:
            before = self._made[iteration - 1]
            self._step(before.mean(received), self._later)
        self._correct(iteration)
        self._taken = iteration + 1
        lacking = self.ranks - 1 if self._corrects else self.ranks
        self._since.staleness.append(self._share * lacking if iteration else 0.0)
        if self._taken % self._every == 0 or self._taken == self._last:
            self._note(self._taken)

    @property
    def weights(self) -> str:
        """Digest of the parameters after the last iteration's sums, in the model's order."""
        return digest(self._places.gather(self.parameters))

    def draw(self) -> None:
        """Nothing is known in advance."""

    def fill(self, rank: int, iteration: int, out: Int32, start: int = 0) -> None:
        if iteration < 0:
            out[:] = 0  # no second stage comes before the first iteration
        else:
            out[:] = self._quantised(iteration).sent[rank, start : start + len(out)]

    def total(self, iteration: int, start: int, stop: int) -> Int32:
        return self._sum_of(iteration)[start:stop]

    def _sum_of(self, iteration: int) -> Int32:
        if iteration < 0:
            return np.zeros(self.elements, np.int32)
        return self._quantised(iteration).total

    def _quantised(self, iteration: int) -> Quantised:
        """The gradients of ``iteration``, computed with the parameters after the sums taken so
        far."""
        if iteration not in self._made:
            assert iteration == self._taken, "an iteration needs the sums of the one before"
            began = monotonic()
            gradients = np.empty((self.ranks, self.elements), np.float32)
            for rank in range(self.ranks):
                own = self._local.get(rank, self.parameters)
                flat = self._places.gather(own)
                gradient, loss = self._computation.gradient(flat, rank, iteration)
                gradients[rank] = self._places.spread(gradient)
                self._since.losses.append(loss)
            block, when = self._places.layout.carried, f"iteration {iteration + 1}"
            made = quantised(gradients, self._job, block, when)
            self._since.errors.append(made.error)
            self._made[iteration] = made
            self._own = gradients
            self._made.pop(iteration - _LASTING, None)
            self.computed_s = max(self.computed_s, monotonic() - began)
        return self._made[iteration]

    def _step(self, gradient: Float32, where: npt.NDArray[np.bool_]) -> None:
        if where.all():
            self.parameters = self._optimizer.step(self.parameters, gradient, slice(None))
            return
        for part in _spans(where):
            self.parameters[part] = self._optimizer.step(self.parameters, gradient[part], part)

    def _correct(self, iteration: int) -> None:
        """Set the deferred parameters of each worker until the sums of ``iteration`` arrive."""
        if not self._share or not self._corrects:
            return
        for rank in range(self.ranks):
            own = self.parameters.copy()
            for part in _spans(self._later):
                own[part] = self._optimizer.step(own, self._own[rank, part], part, keep=False)
            self._local[rank] = own

    def _note(self, iteration: int) -> None:
        if not self._evaluates:
            return
        flat = self._places.gather(self.parameters)
        value = self._computation.evaluate(flat)
        self.points.append(self._since.point(flat, float(iteration), None, value))


def _spans(where: npt.NDArray[np.bool_]) -> list[slice]:
    """The consecutive runs of true values."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], where, [False]]).astype(np.int8)))
    return [slice(int(a), int(b)) for a, b in edges.reshape(-1, 2)]
