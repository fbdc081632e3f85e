"""The executor for this machine, and the interface of all executors."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Protocol, TypeAlias

from testbed import results
from testbed.backends.emulation import targets
from testbed.backends.emulation.network import EmulationError, require
from testbed.backends.measurements import BrokenConnection, Stalled, SumMismatch
from testbed.backends.packet import backend as packet
from testbed.backends.recording import Recording
from testbed.campaign import devices
from testbed.campaign.cell import CellResult, run_cell
from testbed.campaign.isolation import Call, Failed, end
from testbed.campaign.planning import Planned
from testbed.campaign.version import deployed, version
from testbed.deployment.errors import DeploymentError
from testbed.experiment.cells import Cell
from testbed.hosts.launcher import RankFailed
from testbed.switches.control import ControlError
from testbed.training import learning as training

EXPECTED_ERRORS = (
    BrokenConnection, ControlError, DeploymentError, EmulationError, RankFailed, Stalled,
    SumMismatch,
)  # fmt: skip

Outcome: TypeAlias = CellResult | Failed
Told: TypeAlias = Callable[[Planned], None]


class Executor(Protocol):
    """Runs cells."""

    def prepare(self, cells: Sequence[Planned], recording: Recording) -> None:
        """Check, before the first cell runs, that nothing keeps ``cells`` from running.

        Raises EmulationError or DeploymentError if something does.
        """

    def outcomes(
        self,
        cells: Sequence[Planned],
        logs: Path,
        recording: Recording,
        started: Told,
    ) -> Iterator[tuple[Planned, Outcome]]:
        """Each cell with its outcome, as soon as it ends.

        Args:
            logs: the directory in which each cell has a directory for its logs.
            recording: what cells record there.
            started: called with each cell when it begins.
        """


class Local:
    """Runs cells here, each in its own process: emulated cells alone, simulated ones in parallel on
    all cores."""

    def prepare(self, cells: Sequence[Planned], recording: Recording) -> None:
        emulated = [each.cell.experiment for each in cells if is_emulated(each)]
        if emulated:
            require()
        training.prepare([each.deployment for each in cells])
        devices.check(each.deployment for each in cells)
        for each in cells:  # the code's digests are cached before the cells are forked
            version(each.cell.experiment)
            deployed(each.cell.experiment, "")
        # Compile now, so that this does not delay the first cell.
        compiled = {
            (each.emulation.target, each.emulation.p4_program, each.fabric.values)
            for each in emulated
        }
        for target, program, values in compiled:
            targets.prepare(targets.choose(target), targets.program(program, values), values)
        packet.prepare(
            each.deployment for each in cells if each.cell.experiment.backend == "packet"
        )
        check_recording(cells, recording)

    def outcomes(
        self,
        cells: Sequence[Planned],
        logs: Path,
        recording: Recording,
        started: Told,
    ) -> Iterator[tuple[Planned, Outcome]]:
        waiting, running = deque(cells), dict[Connection, _Running]()
        cores = len(os.sched_getaffinity(0))
        try:
            while waiting or running:
                side_by_side = [*(each.planned for each in running.values()), *islice(waiting, 1)]
                may_start = not running or not any(map(is_emulated, side_by_side))
                if waiting and may_start and len(running) < cores:
                    started(waiting[0])
                    begun = _Running(waiting.popleft(), logs, recording)
                    running[begun.call.pipe] = begun
                    continue
                for pipe in wait(list(running)):
                    assert isinstance(pipe, Connection)
                    ended = running[pipe]
                    outcome = ended.outcome()
                    del running[pipe]
                    yield ended.planned, outcome
        finally:
            end([each.call for each in running.values()])


class _Running:
    """A cell in its own process."""

    def __init__(self, planned: Planned, logs: Path, recording: Recording) -> None:
        self.planned, self._log_dir = planned, logs / log_name(planned.cell)
        self.call = Call(
            run_cell,
            *(planned.cell, planned.deployment, self._log_dir, recording),
            expected=EXPECTED_ERRORS,
        )

    def outcome(self) -> Outcome:
        """Wait for the cell's end and take its outcome, which may be a failure."""
        try:
            return self.call.result()
        except Failed as failure:
            if failure.details:
                self._log_dir.mkdir(parents=True, exist_ok=True)
                (self._log_dir / "error.txt").write_text(failure.details)
            return failure


def check_recording(cells: Sequence[Planned], recording: Recording) -> None:
    """Raise DeploymentError if no cell can record this, or if a cell lacks a link."""
    recording.check([(each.cell.experiment.backend, each.deployment.fabric) for each in cells])


def is_emulated(planned: Planned) -> bool:
    return planned.cell.experiment.backend == "emulate"


def log_name(cell: Cell) -> str:
    """The directory of a cell's logs."""
    return results.log_name(cell.id, cell.repeat)
