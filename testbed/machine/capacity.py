"""Whether a machine can carry an experiment, and at which dilation it can.

The closed form says how many bytes the jobs' links carry at the same time, a calibration what
each of them costs. What the rule of idle time leaves is compared with what the busiest second
needs. The verdict decides afterwards; this says it before the time is spent.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
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
"""How much of what may be used an automatic dilation uses."""

BEYOND = 2.0
"""An experiment that needs so many times what may be used is refused."""

EACH_PACKET = 0.75
"""Of what a packet of 256 values costs, with which machines are calibrated, the part that it costs
whatever its size (p4/PERFORMANCE.md: 64 to 1024 values)."""

RARER = 2.0
"""A sweep lasts longer than a calibration: its worst wake-up is so much later."""

_TIDY = (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8)
_MOST = 1e9


@dataclass(frozen=True)
class Load:
    """What a job puts on the machine, on the real cluster's clock and scaled.

    Attributes:
        total, host, switch: bytes/s, while the job communicates, on all links together, of the
            busiest host (both ways), into the busiest P4 switch.
        iteration_bytes: on all links, in an iteration.
        iteration_s: how long that lasts in closed form.
    """

    costs: Costs
    total: float
    host: float
    switch: float
    iteration_bytes: float
    iteration_s: float

    def needs(self, dilation: float, cores: int) -> tuple[float, float, float]:
        """Shares of all cores, a rank's core and a switch's core, in the busiest second."""
        if not self.total:
            return 0.0, 0.0, 0.0
        # A second may hold only one iteration, or many with pauses between.
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
    """What the jobs of a cell need of the machine, at any dilation."""

    loads: tuple[Load, ...]
    cores: int
    late_s: float

    def strain(self, dilation: float) -> float:
        """What they need of what may be used; beyond 1 the processor will be short."""
        needs = [load.needs(dilation, self.cores) for load in self.loads]
        processors = sum(each for each, _, _ in needs)
        # Each job has hosts of its own; a switch may serve several.
        rank = max(each for _, each, _ in needs)
        switch = sum(each for _, _, each in needs)
        return max(processors, rank, switch) / (1 - IDLE_FLOOR)

    def late(self, dilation: float) -> float:
        """The worst wake-up delay in the same terms: of what an iteration bears."""
        bearable = LATE_SHARE * dilation * min(load.iteration_s for load in self.loads)
        return RARER * self.late_s / bearable if bearable else 0.0

    def enough(self) -> float:
        """The smallest tidy dilation that leaves some room."""
        return next(
            float(each)
            for each in _tidy()
            if max(self.strain(each), self.late(each)) <= COMFORT or each >= _MOST
        )


def demand(deployment: Deployment, known: Calibration) -> Demand:
    """What the jobs need of this machine, by what is ``known`` of it."""
    fabric = deployment.fabric
    # Whether the target is there is asked when something runs.
    target = "bmv2" if deployment.experiment.emulation.target == "bmv2" else "native"
    costs = known.costs.get(target, calibration.DEFAULTS.costs[target])
    packets = _in_packets(costs, fabric.values)
    return Demand(
        tuple(
            _load(job, fabric, packets if job.plan.trees else known.costs["tcp"])
            for job in deployment.jobs
        ),
        len(os.sched_getaffinity(0)),
        known.late_s,
    )


def _in_packets(costs: Costs, values: int) -> Costs:
    """What a byte costs in packets of ``values``."""
    each = 1 - EACH_PACKET + EACH_PACKET * wire.VALUES / values
    return Costs(costs.link * each, costs.rank * each, costs.switch * each)


def _load(job: DeployedJob, fabric: Fabric, costs: Costs) -> Load:
    links = {
        ends: each for ends, each in model.link_loads(job.plan, fabric).items() if len({*ends}) == 2
    }
    pace = model.seconds_per_byte(job.plan, fabric)
    summing = {switch for tree in job.plan.trees for switch in tree.switches}

    def busiest(nodes: Sequence[str], of: Callable[[str, tuple[str, str]], bool]) -> float:
        """Of ``nodes``, how much the links go through that are its own."""
        sums = (sum(each for ends, each in links.items() if of(node, ends)) for node in nodes)
        return max(sums, default=0.0) / pace if pace else 0.0

    total = sum(links.values())
    return Load(
        costs,
        total / pace if pace else 0.0,
        busiest(job.plan.hosts, lambda node, ends: node in ends),
        busiest(sorted(summing), lambda node, ends: node == ends[1]),
        total * job.gradient_bytes,
        job.expected[-1].iteration_s,
    )


def warning(needed: Demand, dilation: float, known: Calibration) -> str | None:
    """What will likely make a cell invalid; None if nothing will."""
    strain = needed.strain(dilation)
    if strain <= 1:
        return None
    source = "" if known.measured else "; `ina-testbed calibrate` measures what it really carries"
    return (
        f"at dilation {dilation:g} this machine is likely to be too slow by a factor of"
        f" {strain:.1f}; dilation {needed.enough():g} would do{source}"
    )


def refusal(needed: Demand, dilation: float, known: Calibration) -> str | None:
    """Why a cell should not even begin; None if it may. Guesses refuse nothing."""
    strain = needed.strain(dilation)
    if not known.measured or strain <= BEYOND:
        return None
    return (
        f"at dilation {dilation:g} it needs {strain:.1f} times what this machine carries"
        f" (refused from {BEYOND:g} on); set emulation.dilation to {needed.enough():g} or auto, or"
        " run with --force"
    )


def resolved(
    experiment: Experiment,
    known: Calibration,
    deployments: Deployments,
    before: Experiment | None = None,
) -> Experiment:
    """``experiment`` with a number for ``dilation: auto``: the smallest that does for every cell,
    or what it came to ``before``. What is deployed for that is kept in ``deployments``.

    One for all, so that cells can be compared. DeploymentError if the sweep asks for it.
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
        with suppress(DeploymentError):  # which whoever plans the cells tells
            yield demand(deployments.of(cell.experiment), known)


def _tidy() -> Iterator[float]:
    for power in range(int(math.log10(_MOST)) + 1):
        yield from (step * 10**power for step in _TIDY)
