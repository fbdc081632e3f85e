"""The cells of an experiment before they run: deployed, and what to expect of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from testbed.deployment.deploy import Deployment
from testbed.deployment.errors import DeploymentError
from testbed.experiment.cells import Cell
from testbed.machine import calibration, capacity
from testbed.placement.deployments import Deployments

SIMULATION_S = 1.0
"""What a simulated cell is expected to take, for want of knowing better."""


@dataclass(frozen=True)
class Planned:
    """A cell that is still to run: how it is deployed, its expected seconds, what will likely make
    it invalid, and why this machine should not even try."""

    cell: Cell
    deployment: Deployment
    seconds: float
    warning: str | None = None
    refusal: str | None = None


def plan(cells: Sequence[Cell], deployments: Deployments | None = None) -> list[Planned]:
    """What to expect of each of ``cells``. DeploymentError says why any cannot be set up.

    Each is deployed once, or not at all where it is among ``deployments`` already.
    """
    deployments = deployments or Deployments()
    known: dict[str, Planned] = {}
    problems: dict[str, Cell] = {}
    for cell in cells:
        if cell.id not in known:
            try:
                known[cell.id] = _expect(cell, deployments.of(cell.experiment))
            except DeploymentError as error:
                problems.setdefault(str(error), cell)
    if problems:
        raise DeploymentError(
            "\n".join(f"{title(cell)}: {problem}" for problem, cell in problems.items())
        )
    return [replace(known[cell.id], cell=cell) for cell in cells]


def _expect(cell: Cell, deployment: Deployment) -> Planned:
    if cell.experiment.backend != "emulate":
        return Planned(cell, deployment, SIMULATION_S)
    known, dilation = calibration.load(), cell.experiment.emulation.dilation
    needed = capacity.demand(deployment, known)
    seconds = max(job.expected_end_s for job in deployment.jobs) * dilation
    return Planned(
        cell,
        deployment,
        seconds + known.bring_up_s * len(deployment.fabric.nodes),
        capacity.warning(needed, dilation, known),
        capacity.refusal(needed, dilation, known),
    )


def refuse(planned: Sequence[Planned]) -> None:
    """DeploymentError if any cell is clearly beyond this machine."""
    beyond = dict.fromkeys(
        f"{title(each.cell)}: {each.refusal}" for each in planned if each.refusal
    )
    if beyond:
        raise DeploymentError("\n".join(beyond))


def title(cell: Cell) -> str:
    jobs = " + ".join(f"{job.system} {job.workload}" for job in cell.experiment.jobs)
    others = [
        f"{path.rpartition('.')[2]}={_brief(value)}"
        for path, value in cell.settings.items()
        if not path.endswith((".system", ".workload"))
    ]
    return " ".join([jobs, *others, f"repeat {cell.repeat + 1}"])


def _brief(value: Any) -> str:
    """``fat-tree(k=4,ina=all)`` for a whole fabric."""
    if isinstance(value, Mapping):
        inner = ",".join(f"{key}={_brief(each)}" for key, each in value.items() if key != "kind")
        return f"{value.get('kind', '')}({inner})"
    if isinstance(value, (list, tuple)):
        return f"[{','.join(map(_brief, value))}]"
    return str(value)
