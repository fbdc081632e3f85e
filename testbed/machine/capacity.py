"""Whether a machine is fast enough for an experiment, and at which dilation.

The closed form gives the bytes that the jobs' links carry at the same time, and the calibration
gives the processor time of each byte. What the busiest second needs is compared with what the rule
for idle time allows. This predicts, before any time is spent, what the verdict decides afterwards.
"""

from __future__ import annotations

import math
import os
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from testbed import wire
from testbed.deployment.deploy import DeployedJob, Deployment
from testbed.deployment.errors import DeploymentError
from testbed.experiment.cells import distinct
from testbed.experiment.fields import AUTO
from testbed.experiment.schema import Experiment
from testbed.machine import calibration
from testbed.machine.calibration import Calibration, Costs
from testbed.machine.verdict import IDLE_FLOOR, LATE_SHARE
from testbed.placement.deployments import Deployments
from testbed.plan import cost as model
from testbed.topology.fabric import Fabric

COMFORT = 0.8
"""The share of the usable processor time that an automatic dilation uses."""

BEYOND = 2.0
"""An experiment that needs more than this multiple of the usable processor time is refused."""

EACH_PACKET = 0.75
"""The part of a packet's cost that does not depend on its size, at the 256 values with which
machines are calibrated (p4/PERFORMANCE.md: 64 to 1024 values)."""

RARER = 2.0
"""A sweep lasts longer than a calibration, so its latest wake-up is assumed to be later by this
factor."""

_TIDY = (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8)
_MOST = 1e9


@dataclass(frozen=True)
class Load:
    """The load of a job on the machine, scaled and on the real cluster's clock.

    Attributes:
        total, host, switch: bytes/s while the job communicates: on all links together, at the
            busiest host (both directions), into the busiest P4 switch.
        iteration_bytes: bytes on all links per iteration.
        iteration_s: the length of an iteration in closed form.
    """

    costs: Costs
    total: float
    host: float
    switch: float
    iteration_bytes: float
    iteration_s: float

    def needs(self, dilation: float, cores: int) -> tuple[float, float, float]:
        """The shares of all cores, of a rank's core and of a switch's core that the busiest second
        needs."""
        if not self.total:
            return 0.0, 0.0, 0.0
        # A second may contain a part of one iteration, or many iterations with pauses between them.
        iterations = max(1.0, 1 / (self.iteration_s * dilation))
        share = min(1.0, self.iteration_bytes * iterations * dilation / self.total)
        each = share * 1e-9 / dilation
        return (
            self.total * self.costs.link * each / cores,
            self.host * self.costs.rank * each,
            self.switch * self.costs.switch * each,
        )


@dataclass(frozen=True)
class Demand:
    """What the jobs of a cell need from the machine, at any dilation.

    Attributes:
        measured: whether all costs were measured on this machine.
    """

    loads: tuple[Load, ...]
    cores: int
    late_s: float
    measured: bool = False

    def strain(self, dilation: float) -> float:
        """The processor time needed, relative to what may be used; above 1 the machine is too
        slow."""
        needs = [load.needs(dilation, self.cores) for load in self.loads]
        processors = sum(each for each, _, _ in needs)
        # Each job has hosts of its own; a switch may serve several.
        rank = max(each for _, each, _ in needs)
        switch = sum(each for _, _, each in needs)
        return max(processors, rank, switch) / (1 - IDLE_FLOOR)

    def late(self, dilation: float) -> float:
        """The longest expected delay of a wake-up, relative to what an iteration tolerates."""
        tolerable = LATE_SHARE * dilation * min(load.iteration_s for load in self.loads)
        return RARER * self.late_s / tolerable if tolerable else 0.0

    def enough(self) -> float:
        """The smallest round dilation that leaves some reserve."""
        return next(
            float(each)
            for each in _tidy()
            if max(self.strain(each), self.late(each)) <= COMFORT or each >= _MOST
        )


def demand(deployment: Deployment, known: Calibration) -> Demand:
    """What the jobs need from this machine, by its calibration ``known``."""
    fabric = deployment.fabric
    # Whether the target is installed is checked when something runs.
    target = "bmv2" if deployment.experiment.emulation.target == "bmv2" else "native"
    costs = known.costs.get(target, calibration.DEFAULTS.costs[target])
    packets = _in_packets(costs, fabric.values)
    # A machine without BMv2 is calibrated without it.
    needed = {target if job.plan.trees else "tcp" for job in deployment.jobs}
    return Demand(
        tuple(
            _load(job, fabric, packets if job.plan.trees else known.costs["tcp"])
            for job in deployment.jobs
        ),
        len(os.sched_getaffinity(0)),
        known.late_s,
        known.measured and needed <= known.costs.keys(),
    )


def _in_packets(costs: Costs, values: int) -> Costs:
    """The costs of a byte in packets of ``values``."""
    each = 1 - EACH_PACKET + EACH_PACKET * wire.VALUES / values
    return Costs(costs.link * each, costs.rank * each, costs.switch * each)


def _load(job: DeployedJob, fabric: Fabric, costs: Costs) -> Load:
    loads = model.link_loads(job.plan, fabric)
    pace = model.busiest_s(loads, fabric)
    summing = {switch for tree in job.plan.trees for switch in tree.switches}
    received: defaultdict[str, float] = defaultdict(float)
    handled: defaultdict[str, float] = defaultdict(float)
    total = 0.0
    for (source, to), each in loads.items():
        if source != to:  # else, sums of a switch
            total += each
            received[to] += each
            handled[source] += each
            handled[to] += each

    def rate(amount: float) -> float:
        """Bytes/s at the pace of the busiest link."""
        return amount / pace if pace else 0.0

    return Load(
        costs,
        rate(total),
        rate(max((handled[host] for host in job.plan.hosts), default=0.0)),
        rate(max((received[switch] for switch in summing), default=0.0)),
        total * job.gradient_bytes,
        job.expected[-1].iteration_s,
    )


def warning(needed: Demand, dilation: float) -> str | None:
    """Why a cell will probably be invalid; None if it should be valid."""
    strain = needed.strain(dilation)
    if strain <= 1:
        return None
    source = "" if needed.measured else "; `ina-testbed calibrate` measures its actual capacity"
    return (
        f"at dilation {dilation:g} this machine is likely to be too slow by a factor of"
        f" {strain:.1f}; dilation {needed.enough():g} would suffice{source}"
    )


def refusal(needed: Demand, dilation: float) -> str | None:
    """Why a cell must not start; None if it may. With default costs, every cell may."""
    strain = needed.strain(dilation)
    if not needed.measured or strain <= BEYOND:
        return None
    return (
        f"at dilation {dilation:g} it needs {strain:.1f} times what this machine can carry"
        f" (at most {BEYOND:g} is allowed); set emulation.dilation to {needed.enough():g} or auto,"
        " or run with --force"
    )


def resolved(
    experiment: Experiment,
    known: Calibration,
    deployments: Deployments,
    before: Experiment | None = None,
) -> Experiment:
    """``experiment`` with a number for ``dilation: auto``: the smallest that suffices for every
    cell, or the number chosen in ``before``. ``deployments`` keeps the deployments made for this.

    All cells get the same dilation, so that they can be compared. Raises DeploymentError if the
    sweep has auto.
    """
    swept = experiment.sweep.values if experiment.sweep else {}
    if "auto" in swept.get("emulation.dilation", ()):
        raise DeploymentError(
            "emulation.dilation: found auto in the sweep, wanted numbers there, or auto outside"
        )
    if experiment.emulation.dilation != AUTO:
        return experiment
    enough = before.emulation.dilation if before is not None else AUTO
    if enough == AUTO:
        enough = max(
            (each.enough() for each in _demands(experiment, known, deployments)), default=AUTO
        )
    emulation = experiment.emulation.model_copy(update={"dilation": enough})
    return experiment.model_copy(update={"emulation": emulation})


def _demands(
    experiment: Experiment, known: Calibration, deployments: Deployments
) -> Iterator[Demand]:
    for cell in distinct(experiment):
        if cell.experiment.backend != "emulate":
            continue
        with suppress(DeploymentError):  # reported when the cells are planned
            yield demand(deployments.of(cell.experiment), known)


def _tidy() -> Iterator[float]:
    for power in range(int(math.log10(_MOST)) + 1):
        yield from (step * 10**power for step in _TIDY)
