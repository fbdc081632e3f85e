"""Cells that run here, one after another; and what any executor offers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol, TypeAlias

from testbed.backends.emulation import targets
from testbed.backends.emulation.capture import ends
from testbed.backends.emulation.network import EmulationError, require
from testbed.backends.flow.simulate import Stalled
from testbed.campaign.cell import CellResult, run_cell
from testbed.campaign.emulating import SumMismatch
from testbed.campaign.isolation import Failed, call
from testbed.deployment.errors import DeploymentError
from testbed.experiment.cells import Cell
from testbed.hosts.launcher import RankFailed
from testbed.placement.fabric import build_fabric
from testbed.switches.control import ControlError

EXPECTED_ERRORS = (
    ControlError, DeploymentError, EmulationError, RankFailed, Stalled, SumMismatch,
)  # fmt: skip

Outcome: TypeAlias = CellResult | Failed
Started: TypeAlias = Callable[[Cell], None]


class Executor(Protocol):
    """Runs cells."""

    def prepare(self, cells: Sequence[Cell], captures: Sequence[str]) -> None:
        """Find out what keeps ``cells`` from running, before the first one.

        EmulationError or DeploymentError if anything does.
        """

    def outcomes(
        self, cells: Sequence[Cell], logs: Path, captures: Sequence[str], started: Started
    ) -> Iterator[tuple[Cell, Outcome]]:
        """Each cell with what became of it, as soon as that is known.

        Args:
            logs: where each cell's logs come into a directory of their own.
            captures: links whose packets are kept there.
            started: called with each cell when it begins.
        """


class Local:
    """Cells run here, in their order, each in a process of its own."""

    def prepare(self, cells: Sequence[Cell], captures: Sequence[str]) -> None:
        emulated = [each.experiment for each in cells if each.experiment.backend == "emulate"]
        if emulated:
            require()
        # What is compiled once must not cost the first cell its time.
        compiled = {
            (each.emulation.target, each.emulation.p4_program, each.fabric.values)
            for each in emulated
        }
        for target, program, values in compiled:
            targets.prepare(targets.choose(target), targets.program(program, values), values)
        check_captures(cells, captures)

    def outcomes(
        self, cells: Sequence[Cell], logs: Path, captures: Sequence[str], started: Started
    ) -> Iterator[tuple[Cell, Outcome]]:
        for cell in cells:
            started(cell)
            yield cell, attempt(cell, logs / log_name(cell), captures)


def check_captures(cells: Sequence[Cell], captures: Sequence[str]) -> None:
    """EmulationError if any of ``captures`` is no link of any cell's fabric."""
    for cell in cells if captures else ():
        for link in captures:
            ends(link, build_fabric(cell.experiment))


def attempt(cell: Cell, log_dir: Path, captures: Sequence[str]) -> Outcome:
    """Run a cell in a process of its own; a reason to fail is an outcome like any other."""
    try:
        return call(run_cell, cell, log_dir, captures, expected=EXPECTED_ERRORS)
    except Failed as failure:
        if failure.details:
            log_dir.mkdir(parents=True, exist_ok=True)
            (log_dir / "error.txt").write_text(failure.details)
        return failure


def log_name(cell: Cell) -> str:
    """The directory of a cell's logs."""
    return f"{cell.id}-{cell.repeat}"
