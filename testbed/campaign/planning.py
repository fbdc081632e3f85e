"""The cells of an experiment before they run: what to expect of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from testbed.deployment.deploy import DeployedJob, deploy
from testbed.deployment.errors import DeploymentError
from testbed.experiment.cells import Cell
from testbed.machine import calibration, capacity
from testbed.placement.fabric import build_fabric
from testbed.topology.fabric import Fabric

SIMULATION_S = 1.0
"""What a simulated cell is expected to take, for want of knowing better."""


@dataclass(frozen=True)
class Planned:
    """A cell that is still to run: its expected seconds, what will likely make it invalid, and why
    this machine should not even try."""

    cell: Cell
    seconds: float
    warning: str | None = None
    refusal: str | None = None


def plan(cells: Sequence[Cell]) -> list[Planned]:
    """What to expect of each of ``cells``. DeploymentError says why any cannot be set up."""
    known: dict[str, Planned] = {}
    problems: dict[str, Cell] = {}
    for cell in cells:
        if cell.id not in known:
            fabric = build_fabric(cell.experiment)
            try:
                jobs = deploy(cell.experiment, fabric)
            except DeploymentError as error:
                problems.setdefault(str(error), cell)
                continue
            known[cell.id] = _expect(cell, jobs, fabric)
    if problems:
        raise DeploymentError(
            "\n".join(f"{title(cell)}: {problem}" for problem, cell in problems.items())
        )
    return [replace(known[cell.id], cell=cell) for cell in cells]


def _expect(cell: Cell, jobs: Sequence[DeployedJob], fabric: Fabric) -> Planned:
    experiment = cell.experiment
    if experiment.backend == "simulate":
        return Planned(cell, SIMULATION_S)
    known, dilation = calibration.load(), experiment.emulation.dilation
    needed = capacity.demand(experiment, jobs, fabric, known)
    seconds = max(job.expected_end_s for job in jobs) * dilation
    return Planned(
        cell,
        seconds + known.bring_up_s * len(fabric.nodes),
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
