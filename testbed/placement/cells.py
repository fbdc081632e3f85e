"""Cells whose fabric is built and whose jobs are planned."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from testbed.deployment.deploy import DeployedJob, deploy
from testbed.deployment.errors import DeploymentError
from testbed.experiment.cells import Cell, title
from testbed.experiment.findings import suggestion
from testbed.experiment.schema import Experiment
from testbed.placement.fabric import build_fabric
from testbed.systems import registry
from testbed.topology.fabric import Fabric


def deployed(cells: Sequence[Cell]) -> Iterator[tuple[Cell, Fabric, list[DeployedJob]]]:
    """Each of ``cells`` once, whatever its repeats, with its fabric and its jobs.

    DeploymentError, after the last cell, has a line for each reason why any cannot be set up.
    """
    seen: set[str] = set()
    problems: dict[str, Cell] = {}
    for cell in cells:
        if cell.id in seen:
            continue
        seen.add(cell.id)
        try:
            _check_systems(cell.experiment)
            fabric = build_fabric(cell.experiment)
            jobs = deploy(cell.experiment, fabric)
        except DeploymentError as error:
            problems.setdefault(str(error), cell)
            continue
        yield cell, fabric, jobs
    if problems:
        raise DeploymentError(
            "\n".join(f"{title(cell)}: {problem}" for problem, cell in problems.items())
        )


def _check_systems(experiment: Experiment) -> None:
    """A run that is resumed may be of another version, which had other systems."""
    for job in experiment.jobs:
        if job.system not in registry:
            raise DeploymentError(
                f"found {job.system!r}, wanted a known system; {suggestion(job.system, registry)}"
            )
