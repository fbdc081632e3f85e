"""What every back end returns for a deployment.

Each back end has a function ``run(deployment, log_dir, captures)`` that returns `Measurements`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from testbed.protocols.events import Event
from testbed.workload.iteration import IterationTimes


class SumMismatch(Exception):
    """A worker received a sum that is not the true one."""


@dataclass(frozen=True)
class JobMeasurements:
    """What was measured of one job; None where a back end does not measure it.

    Attributes:
        iterations: those of each worker, warm-up included, on the back end's clock.
        verified: whether every worker compared every value that it received with the true sum.
        retransmitted, collisions: packets, in all iterations, warm-up included.
        overflows: fragments whose sum left the range of int32.
        quantisation_error: see `testbed.results.Row`.
        events: what P4 switches counted.
        switch_target: what ran the P4 program; empty if nothing did.
        late_s: the longest delay with which a rank was woken.
    """

    iterations: Sequence[Sequence[IterationTimes]]
    verified: bool | None = None
    retransmitted: int | None = None
    collisions: int | None = None
    overflows: int | None = None
    quantisation_error: float | None = None
    events: Counter[Event] | None = None
    switch_target: str = ""
    late_s: float = 0.0


@dataclass(frozen=True)
class Measurements:
    """What a run of a deployment measured. Bytes and times are scaled; times are also dilated.

    Attributes:
        jobs: the measurements of each job, in the deployment's order.
        carried: bytes on each directed link (a, b), headers included; unused links are left out.
        seconds: from the first start to the last end.
        dilation: by how much times on the back end's clock are longer than scaled times.
    """

    jobs: Sequence[JobMeasurements]
    carried: Mapping[tuple[str, str], float] = field(default_factory=dict)
    seconds: float = 0.0
    dilation: float = 1.0
