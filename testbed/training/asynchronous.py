"""Training without an all-reduce: workers' updates are added to servers' parameters as they come.

The simulated schedule gives the order of events: which update a server adds when, and which workers
it answers with the parameters of that moment. So every gradient is computed with parameters that
really are stale. A server divides each update by the number of workers, so that parameters move
equally far in an iteration of any system. That is our reading; sources differ.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from testbed.experiment.schema import Job
from testbed.training.computation import Computation
from testbed.training.curve import Point, Since
from testbed.training.optimizer import Optimizer
from testbed.training.places import Places
from testbed.training.quantised import quantised
from testbed.workload.iteration import UpdateTimes
from testbed.workload.quantise import Float32


class Asynchronous:
    """The parameters at servers, and each worker's copy of them."""

    def __init__(self, job: Job, workers: int, places: Places, computation: Computation) -> None:
        assert job.training is not None
        self._job, self._places, self._computation = job, places, computation
        self._workers = workers
        self._optimizer = Optimizer(job.training, places.elements)
        self.parameters: Float32 = places.spread(computation.initial)
        """The servers' parameters, in the job's order."""
        self._pulled = [self.parameters.copy() for _ in range(workers)]
        self._done = [0] * workers
        self._gradients: list[Float32] = [np.empty(0, np.float32)] * workers
        self._pushed: dict[tuple[int, int, int], int] = {}
        self._added: dict[tuple[int, int], int] = {}
        self._had: dict[tuple[int, int, int], int] = {}
        self.points: list[Point] = []
        self._since = Since()

    def learn(self, updates: Sequence[UpdateTimes], start_s: float) -> None:
        """Follow ``updates``, in the order of time. Times count from ``start_s``."""
        self._note(0.0, 0.0)
        chunks = len({(each.unit, each.chunk) for each in updates})
        every = self._job.training.evaluate_every if self._job.training else 1
        whole = self._workers * chunks
        for count, update in enumerate(updates, 1):
            self._add(update)
            if count % (whole * every) == 0 or count == len(updates):
                self._note(count / whole, update.at_s - start_s)

    def _add(self, update: UpdateTimes) -> None:
        worker, piece = update.worker, (update.unit, update.chunk)
        key = (update.unit, update.chunk, worker)
        number = self._pushed[key] = self._pushed.get(key, 0) + 1
        if number > self._done[worker]:
            # This is its first chunk of an iteration, so it has all answers of the previous one.
            self._compute(worker, number - 1)
        part = self._places.layout.chunk(*piece)
        gradient = self._gradients[worker][part] / np.float32(self._workers)
        self.parameters[part] = self._optimizer.step(self.parameters, gradient, part)
        added = self._added[piece] = self._added.get(piece, 0) + 1
        # Its parameters contain its own earlier updates.
        self._since.staleness.append(added - 1 - self._had.get(key, 0))
        for answered in update.answered:
            self._pulled[answered][part] = self.parameters[part]
            self._had[update.unit, update.chunk, answered] = added

    def _compute(self, worker: int, iteration: int) -> None:
        flat = self._places.gather(self._pulled[worker])
        gradient, loss = self._computation.gradient(flat, worker, iteration)
        one = self._places.spread(gradient)[None]
        when = f"iteration {iteration + 1} of worker {worker}"
        sent = quantised(one, self._job, self._places.layout.carried, when)
        self._gradients[worker] = sent.mean(sent.total)
        self._done[worker] = iteration + 1
        self._since.losses.append(loss)
        self._since.errors.append(sent.error)

    def _note(self, iteration: float, at_s: float) -> None:
        flat = self._places.gather(self.parameters)
        value = self._computation.evaluate(flat)
        self.points.append(self._since.point(flat, iteration, at_s, value))
