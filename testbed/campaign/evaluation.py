"""Runs the cells of an experiment from beginning to end, into a results directory."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from rich.console import Console

from testbed import located, results, run_tables
from testbed.backends.recording import Recording
from testbed.campaign.cell import CellResult, describe
from testbed.campaign.isolation import Failed
from testbed.campaign.local import Executor, log_name
from testbed.campaign.planning import Planned, of_ids, plan
from testbed.campaign.progress import Progress
from testbed.campaign.resume import (
    Key,
    Rules,
    adopt,
    arrange,
    experiment_of,
    held,
    judge,
    key_of,
    probes,
    set_aside,
)
from testbed.campaign.standings import Standings, records
from testbed.campaign.version import _content
from testbed.experiment.cells import expand
from testbed.experiment.load import dump
from testbed.experiment.schema import Experiment
from testbed.machine import calibration, capacity
from testbed.placement.deployments import Deployments
from testbed.provenance import environment, now
from testbed.results import RunDirectory
from testbed.run_tables import Unreadable
from testbed.systems import registry
from testbed.workload.trace import TraceError

_LONGEST_REASON = 4000
"""Characters of a failure's reason in a row: programs that read CSV limit a field's length."""


class Evaluation(Protocol):
    """An experiment that is planned and can be run."""

    planned: list[Planned]
    note: str

    @property
    def directory(self) -> Path | None:
        """The directory of its results; None until it is made."""

    def run(
        self, recording: Recording, executor: Executor, quiet: bool = False
    ) -> tuple[Path, int]:
        """Run the planned cells; return the results directory, and how many of its cells failed,
        in earlier sessions, too.

        ``recording`` is written beside each cell's logs.
        ``quiet`` prints no progress. Errors that keep ``executor`` from running any cell are raised
        before the first one.
        """


class New:
    """Every cell of an experiment, or those whose ids begin with one of ``cells``, into a new
    directory below ``root``.

    Before anything runs, it raises NoCell if there is no such cell, and DeploymentError if one
    cannot be set up.
    """

    note = ""
    directory: Path | None = None

    def __init__(self, experiment: Experiment, root: Path, cells: Sequence[str] = ()) -> None:
        _content.cache_clear()  # files may have changed since this process read them
        deployments = Deployments()
        self._experiment = capacity.resolved(experiment, calibration.load(), deployments)
        self._root = root
        found = expand(self._experiment)
        self.planned = plan(of_ids(found, cells) if cells else found, deployments)

    def run(
        self, recording: Recording, executor: Executor, quiet: bool = False
    ) -> tuple[Path, int]:
        executor.prepare(self.planned, recording)
        directory = RunDirectory.create(self._root, self._experiment.name)
        self.directory = directory.path
        with held(directory.path):
            directory.write(results.EXPERIMENT, dump(self._experiment))
            metadata = environment() | _seeds(self._experiment)
            with _session(directory, metadata, metadata):
                _fill(directory, self.planned, recording, executor, quiet)
                arrange(directory, [key_of(each.cell) for each in self.planned])
        return directory.path, _failures(directory.path)


@contextmanager
def _same_workloads(run: Path) -> Iterator[None]:
    """A context that raises Unreadable if a trace of the run can no longer be read."""
    try:
        yield
    except TraceError as error:
        message = f"{run}: cannot be resumed: a workload is not as it was: {error}"
        raise Unreadable(message) from error


class Resumed:
    """The missing cells of a run's directory; ``experiment`` replaces the one that it holds.

    Raises Unreadable if the directory holds no run or damaged tables, and DeploymentError if
    another run writes there.
    """

    def __init__(self, run: Path, experiment: Experiment | None, rules: Rules) -> None:
        _content.cache_clear()
        self.directory, self._rules = run, rules
        with held(run):
            try:
                for name in (results.RESULTS, results.ITERATIONS):
                    (run / name).stat()
                before = experiment_of(run)
                for each in (run_tables.read, run_tables.read_digests, run_tables.read_training):
                    each(run)
                run_tables.read_metadata(run)
                wanted = experiment or before
            except FileNotFoundError as error:
                absent = Path(error.filename or results.RESULTS).name
                message = f"found no {absent}, wanted the directory of a run"
                with suppress(FileNotFoundError):
                    message += f"; the last run below it is {run_tables.last_run(run)}"
                raise Unreadable(f"{run}: cannot be resumed: {message}") from error
            except (located.Invalid, Unreadable) as error:
                raise Unreadable(f"{run}: cannot be resumed: {error}") from error
            if wanted.name != before.name:
                raise Unreadable(
                    f"{run}: cannot be resumed: found the experiment {wanted.name} for a run of"
                    f" {before.name}, wanted the same name; run it without --resume"
                )
            self._deployments, known = Deployments(), calibration.load()
            with _same_workloads(run):
                self._experiment = capacity.resolved(wanted, known, self._deployments, before)
                state = judge(run, expand(self._experiment), rules, self._deployments)
        with _same_workloads(run):
            self.planned = plan(state.missing, self._deployments)
        self.note = f"{run}: {state}"

    def run(
        self, recording: Recording, executor: Executor, quiet: bool = False
    ) -> tuple[Path, int]:
        executor.prepare(self.planned, recording)
        with held(self.directory):
            directory, cells = RunDirectory(self.directory), expand(self._experiment)
            state = judge(self.directory, cells, self._rules, self._deployments)
            probed = probes(self.directory, state, self._rules, self._deployments)
            set_aside(directory, replace(state, finished=state.finished | probed.others))
            directory.write(results.EXPERIMENT, dump(self._experiment))
            metadata = run_tables.read_metadata(self.directory)
            if not state.missing and metadata.get("finished_at"):
                return self.directory, _failures(self.directory)
            session = environment() | _seeds(self._experiment)
            if state.unchanged:
                session["unchanged"] = len(state.unchanged)
            if state.finished | probed.others:
                metadata["resumed"] = [*(metadata.get("resumed") or []), session]
            else:  # earlier sessions made none of the rows that count
                earlier = metadata.pop("superseded", [])
                session |= {"superseded": [*earlier, metadata]}
                metadata = session
            with _session(directory, metadata, session):
                if probed.again:
                    self._fill(directory, probed.again, recording, executor, quiet)
                    session["adopted"] = adopt(directory, probed, state.wanted, self._deployments)
                    state = judge(self.directory, cells, self._rules, self._deployments)
                    set_aside(directory, state)
                missing = state.wanted.keys() - state.finished
                self._fill(directory, missing, recording, executor, quiet)
                arrange(directory, [*state.wanted])
        return self.directory, _failures(self.directory)

    def _fill(
        self,
        directory: RunDirectory,
        keys: Collection[Key],
        recording: Recording,
        executor: Executor,
        quiet: bool,
    ) -> None:
        planned = [each for each in self.planned if key_of(each.cell) in keys]
        _fill(directory, planned, recording, executor, quiet)


def _seeds(experiment: Experiment) -> dict[str, Any]:
    return {"seeds": {"experiment": experiment.emulation.seed}}


@contextmanager
def _session(
    directory: RunDirectory, metadata: dict[str, Any], session: dict[str, Any]
) -> Iterator[None]:
    """Write a run's ``metadata``: when the session in it ends, and when the whole run has
    finished."""

    def write(has_finished: bool) -> None:
        finished_at = session["ended_at"] if has_finished else None
        directory.write_metadata({**metadata, "finished_at": finished_at})

    write(False)
    try:
        yield
    except BaseException:
        session["ended_at"] = now()
        with suppress(OSError):  # a full disk may be what ended it, and is the error to report
            write(False)
        raise
    session["ended_at"] = now()
    write(True)


def _fill(
    directory: RunDirectory,
    planned: Sequence[Planned],
    recording: Recording,
    executor: Executor,
    quiet: bool,
) -> None:
    """Run the cells, and write the rows of each as soon as it ends."""
    console = Console(stderr=True, quiet=quiet, force_terminal=sys.stderr.isatty())
    titles = {name: system.title for name, system in registry.items()}
    standings = Standings(titles)
    for row in records(directory.path):  # of the sessions before
        standings.add(row)
    progress = Progress(planned, directory, standings, console)
    for each in planned:
        shutil.rmtree(directory.logs / log_name(each.cell), ignore_errors=True)
    for each, outcome in executor.outcomes(planned, directory.logs, recording, progress.start):
        if isinstance(outcome, Failed):
            result = _failed(each, str(outcome))
            said = f"FAILED: {outcome}"
        else:
            result = outcome
            said = _summary(result)
        directory.append_links(result.links)
        directory.append_digests(result.digests)
        directory.append_iterations(result.iterations)
        directory.append_progress(result.training)
        directory.append(result.jobs)  # last, because these rows mark the cell as finished
        progress.finish(each, said, result.jobs)


def _failures(run: Path) -> int:
    """The number of failed cells in a run's directory."""
    return len({(row["cell"], row["repeat"]) for row in records(run) if row["error"]})


def _failed(planned: Planned, reason: str) -> CellResult:
    """The rows of a failed cell, so that it is not missing from the tables."""
    rows = describe(planned.cell, planned.deployment)
    if len(reason) > _LONGEST_REASON:
        reason = f"{reason[:_LONGEST_REASON]}..."
    return CellResult([replace(row, verdict="failed", error=reason) for row in rows])


def _summary(result: CellResult) -> str:
    last = {each.job: each for each in result.training}
    return "; ".join(
        f"JCT {row.jct_s:.3g} s (closed form {row.expected_jct_s:.3g} s), {row.verdict}"
        + (f", {last[row.job].metric} {last[row.job].value:.3g}" if row.job in last else "")
        for row in result.jobs
    )
