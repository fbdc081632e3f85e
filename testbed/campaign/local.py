"""Cells that run here, one after another; and what any executor offers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol, TypeAlias

from testbed.backends.emulation import targets
from testbed.backends.emulation.capture import ends
from testbed.backends.emulation.network import EmulationError, require
from testbed.backends.flow.simulate import Stalled
from testbed.backends.measurements import SumMismatch
from testbed.campaign.cell import CellResult, run_cell
from testbed.campaign.isolation import Failed, call
from testbed.campaign.planning import Planned
from testbed.campaign.version import code
from testbed.deployment.errors import DeploymentError
from testbed.experiment.cells import Cell
from testbed.hosts.launcher import RankFailed
from testbed.switches.control import ControlError

EXPECTED_ERRORS = (
    ControlError, DeploymentError, EmulationError, RankFailed, Stalled, SumMismatch,
)  # fmt: skip

Outcome: TypeAlias = CellResult | Failed
Started: TypeAlias = Callable[[Planned], None]


class Executor(Protocol):
    """Runs cells."""

    def prepare(self, cells: Sequence[Planned], captures: Sequence[str]) -> None:
        """Find out what keeps ``cells`` from running, before the first one.

        EmulationError or DeploymentError if anything does.
        """

    def outcomes(
        self, cells: Sequence[Planned], logs: Path, captures: Sequence[str], started: Started
    ) -> Iterator[tuple[Planned, Outcome]]:
        """Each cell with what became of it, as soon as that is known.

        Args:
            logs: where each cell's logs come into a directory of their own.
            captures: links whose packets are kept there.
            started: called with each cell when it begins.
        """


class Local:
    """Cells run here, in their order, each in a process of its own."""

    def prepare(self, cells: Sequence[Planned], captures: Sequence[str]) -> None:
        emulated = [each.cell.experiment for each in cells if is_emulated(each)]
        if emulated:
            require()
        code()  # cells are forks, and shall not each work it out
        # What is compiled once must not cost the first cell its time.
        compiled = {
            (each.emulation.target, each.emulation.p4_program, each.fabric.values)
            for each in emulated
        }
        for target, program, values in compiled:
            targets.prepare(targets.choose(target), targets.program(program, values), values)
        check_captures(cells, captures)

    def outcomes(
        self, cells: Sequence[Planned], logs: Path, captures: Sequence[str], started: Started
    ) -> Iterator[tuple[Planned, Outcome]]:
        for each in cells:
            started(each)
            yield each, attempt(each, logs / log_name(each.cell), captures)


def check_captures(cells: Sequence[Planned], captures: Sequence[str]) -> None:
    """EmulationError if any of ``captures`` is no link of any cell's fabric."""
    for each in cells if captures else ():
        for link in captures:
            ends(link, each.deployment.fabric)


def is_emulated(planned: Planned) -> bool:
    return planned.cell.experiment.backend == "emulate"


def attempt(planned: Planned, log_dir: Path, captures: Sequence[str]) -> Outcome:
    """Run a cell in a process of its own; a reason to fail is an outcome like any other."""
    try:
        cell, deployment = planned.cell, planned.deployment
        return call(run_cell, cell, deployment, log_dir, captures, expected=EXPECTED_ERRORS)
    except Failed as failure:
        if failure.details:
            log_dir.mkdir(parents=True, exist_ok=True)
            (log_dir / "error.txt").write_text(failure.details)
        return failure


def log_name(cell: Cell) -> str:
    """The directory of a cell's logs."""
    return f"{cell.id}-{cell.repeat}"
