"""Cells that run here; and what any executor offers."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import wait
from pathlib import Path
from typing import Protocol, TypeAlias

from testbed.backends.emulation import targets
from testbed.backends.emulation.capture import ends
from testbed.backends.emulation.network import EmulationError, require
from testbed.backends.measurements import Stalled, SumMismatch
from testbed.campaign.cell import CellResult, run_cell
from testbed.campaign.isolation import Call, Failed
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
    """Cells run here, each in a process of its own: an emulated one alone, simulated ones side by
    side on all cores. Their outcomes come in the order of the cells all the same."""

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
        waiting, running = deque(cells), deque[_Running]()
        cores = len(os.sched_getaffinity(0))
        try:
            while waiting or running:
                busy = [each.call.pipe for each in running if not each.call.pipe.poll()]
                side_by_side = [each.planned for each in running] + list(waiting)[:1]
                may_start = not running or not any(map(is_emulated, side_by_side))
                if waiting and may_start and len(busy) < cores:
                    started(waiting[0])
                    running.append(_Running(waiting.popleft(), logs, captures))
                elif running[0].call.pipe in busy:
                    wait(busy)
                else:
                    outcome = running[0].outcome()
                    yield running.popleft().planned, outcome
        finally:
            for each in running:
                each.call.end()


class _Running:
    """A cell in a process of its own."""

    def __init__(self, planned: Planned, logs: Path, captures: Sequence[str]) -> None:
        self.planned, self._log_dir = planned, logs / log_name(planned.cell)
        self.call = Call(
            run_cell,
            *(planned.cell, planned.deployment, self._log_dir, captures),
            expected=EXPECTED_ERRORS,
        )

    def outcome(self) -> Outcome:
        """Wait for its end; a reason to fail is an outcome like any other."""
        try:
            return self.call.result()
        except Failed as failure:
            if failure.details:
                self._log_dir.mkdir(parents=True, exist_ok=True)
                (self._log_dir / "error.txt").write_text(failure.details)
            return failure


def check_captures(cells: Sequence[Planned], captures: Sequence[str]) -> None:
    """EmulationError if any of ``captures`` is no link of any cell's fabric."""
    for each in cells if captures else ():
        for link in captures:
            ends(link, each.deployment.fabric)


def is_emulated(planned: Planned) -> bool:
    return planned.cell.experiment.backend == "emulate"


def log_name(cell: Cell) -> str:
    """The directory of a cell's logs."""
    return f"{cell.id}-{cell.repeat}"
