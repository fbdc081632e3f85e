"""What `testbed.simulation.place` answers for an experiment's jobs."""

from __future__ import annotations

from collections.abc import Sequence

from testbed.experiment.cells import distinct
from testbed.experiment.schema import Experiment
from testbed.harness.deployment import deploy
from testbed.harness.errors import DeploymentError
from testbed.harness.fabrics import build_fabric
from testbed.harness.simulating import simulated
from testbed.simulation.place import Placed, place
from testbed.simulation.scenario import Job
from testbed.topology.fabric import Fabric
from testbed.units import format_time


def answer(experiment: Experiment, budget: int) -> Placed:
    """Which at most ``budget`` switches to make programmable for an experiment without a sweep.

    Which ones it names itself is left aside; ``ina_tier`` says which may be chosen. Times are
    scaled. DeploymentError if the jobs cannot run, or the experiment has several cells.
    """
    cells = distinct(experiment)
    if len(cells) > 1:
        raise DeploymentError(
            f"sweep: found {len(cells)} cells, wanted one; place answers for one set of jobs on "
            "one fabric, write these without a sweep"
        )

    def jobs(fabric: Fabric) -> Sequence[Job]:
        try:
            return [simulated(job) for job in deploy(cells[0].experiment, fabric)]
        except DeploymentError as error:
            raise ValueError(str(error)) from error

    fabric = build_fabric(cells[0].experiment)
    candidates = fabric.switches if experiment.fabric.ina_tier == "any" else None
    try:
        return place(fabric, budget, jobs, candidates)
    except ValueError as error:
        raise DeploymentError(str(error)) from error


def text(experiment: Experiment, placed: Placed) -> str:
    """The answer in words, in the real cluster's time."""
    scale = experiment.emulation.scale
    lines = [f"programmable: {', '.join(placed.switches) or 'none, no switch is of use'}"]
    for number, job in enumerate(experiment.jobs):
        times = [
            format_time(each[number] / scale) if each else "not possible"
            for each in (placed.jct_s, placed.without_s, placed.with_all_s)
        ]
        lines.append(
            f"job {number} ({job.system}, {job.workload}): JCT {times[0]}; "
            f"without any {times[1]}, with all {times[2]}"
        )
    if placed.is_exact:
        lines.append(
            f"the best there is: all choices that differ were simulated, {placed.simulated}"
        )
    else:
        lines.append(
            f"chosen one after another, {placed.simulated} choices simulated: "
            f"at most {placed.gap:.1%} above the best"
        )
    return "\n".join(lines)
