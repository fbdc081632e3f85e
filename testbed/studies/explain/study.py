"""Explains a cell in packets: as text, and as a table and a figure in files."""

from __future__ import annotations

import csv
from dataclasses import astuple, fields
from pathlib import Path

from testbed.backends.measurements import BrokenConnection, Stalled, SumMismatch
from testbed.backends.packet import backend
from testbed.campaign.planning import NoCell, plan, title
from testbed.deployment.errors import DeploymentError
from testbed.experiment.cells import Cell
from testbed.report import canvas, figures
from testbed.studies.explain.attribution import Explanation, Part, explain
from testbed.studies.explain.words import draw, text


def study(cell: Cell, number: int) -> Explanation:
    """The explanation of job ``number`` of a cell.

    Raises Undeployable if the cell cannot be set up, NoCell if it has no such job, DeploymentError
    if the run fails, and what the back end raises.
    """
    deployment = plan([cell])[0].deployment
    if number >= len(deployment.jobs):
        raise NoCell(
            f"--job: found {number}, wanted less than {len(deployment.jobs)}, the cell's jobs"
        )
    backend.prepare([deployment])
    try:
        return explain(deployment, number)
    except (Stalled, BrokenConnection, SumMismatch) as error:
        raise DeploymentError(f"{cell.id}: the run failed, so there is no JCT: {error}") from error


def lines(cell: Cell, found: Explanation) -> str:
    """The explanation of a cell as text."""
    return "\n".join([f"{cell.id}  {title(cell)}", text(found), f"({found.runs} runs)"])


def write(cell: Cell, found: Explanation, folder: Path) -> str:
    """Write a table and a figure into ``folder``; returns a line that names them."""
    name = f"explain-{cell.id}-{found.number}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{name}.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([field.name for field in fields(Part)])
        writer.writerows(astuple(part) for part in found.parts)
    with canvas.paper():
        figures.save({name: draw(found)}, folder)
    return f"table: {folder / name}.csv; figure: {name}.pdf and .png beside it"
