"""How long workers compute: unequal speeds, jitter and stragglers."""

from __future__ import annotations

from testbed.experiment.schema import Compute


def paces(
    compute: Compute | None, workers: int, iterations: int, seed: int
) -> tuple[tuple[float, ...], ...]:
    """The factor of the workload's compute time for each worker and iteration.

    ``seed`` is that of the job. See ``Compute`` for the rules.
    """
    if compute is None:
        return ((1.0,) * iterations,) * workers
    import numpy as np  # slow to import, and most jobs do not need it

    made = np.ones((workers, iterations))
    random = np.random.default_rng([seed, workers, iterations])
    made *= np.asarray(compute.factor).reshape(-1, 1)
    made *= 1 + compute.jitter * random.uniform(-1, 1, made.shape)
    if (slow := compute.stragglers) is not None:
        ranks = slow.workers
        if isinstance(ranks, int):
            ranks = tuple(random.permutation(workers)[:ranks].tolist())
        struck = random.random(made.shape) < slow.probability
        struck[[rank for rank in range(workers) if rank not in ranks]] = False
        made[struck] *= slow.slowdown
    return tuple(map(tuple, made.tolist()))
