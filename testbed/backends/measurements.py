"""What every back end gives back for a deployment.

Each back end has a function ``run(deployment, log_dir, captures)`` that returns `Measurements`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from testbed.protocols.events import Event
from testbed.workload.iteration import IterationTimes


class Stalled(Exception):
    """Ranks wait for one another for ever, in virtual time."""


class SumMismatch(Exception):
    """A worker received a sum that is not the true one."""


@dataclass(frozen=True)
class JobMeasurements:
    """What one job did. Of what a back end does not have, it says None.

    Attributes:
        iterations: each worker's, warm-up included, on the back end's clock.
        verified: whether every worker compared every value that it received with the true sum.
        retransmitted, collisions: packets, in all iterations, warm-up included.
        overflows: fragments whose sum left the range of int32.
        quantisation_error: see `testbed.results.Row`.
        events: what P4 switches counted.
        switch_target: what ran the P4 program; empty if nothing did.
        late_s: the worst delay with which a rank was woken.
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
    """What a run of a deployment showed. Bytes and times are scaled, and times dilated as well.

    Attributes:
        jobs: what each job did, in the deployment's order.
        carried: bytes on each directed link (a, b), headers included; links left out had none.
        seconds: from the first start to the last end.
        dilation: how many times slower than scaled time the back end's clock is read.
    """

    jobs: Sequence[JobMeasurements]
    carried: Mapping[tuple[str, str], float] = field(default_factory=dict)
    seconds: float = 0.0
    dilation: float = 1.0
