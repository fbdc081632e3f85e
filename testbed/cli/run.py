"""``run``: experiments, cell by cell, and a report on all of them."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from testbed.cli.arguments import DIRECTORY, FILE, OUTPUT, deploying, each_once, experiments
from testbed.cli.failures import running

if TYPE_CHECKING:
    from testbed.backends.recording import Recording
    from testbed.campaign.evaluation import Evaluation
    from testbed.campaign.local import Executor


DRY_RUN = click.option(
    "--dry-run", is_flag=True, help="list the cells and their expected times, run nothing"
)
FORCE = click.option(
    "--force",
    is_flag=True,
    help="run even if the calibration says that this machine clearly cannot handle a cell",
)


@click.command()
@click.argument("files", nargs=-1, type=FILE, callback=each_once)
@OUTPUT
@DRY_RUN
@click.option(
    "--resume",
    metavar="DIR",
    type=DIRECTORY,
    help="run the missing cells of a run's directory; a FILE replaces its experiment",
)
@click.option(
    "--retry",
    type=click.Choice(["failed", "invalid"]),
    multiple=True,
    help="with --resume: run such cells again; may be repeated",
)
@click.option(
    "--any-version",
    is_flag=True,
    help="with --resume: also count rows that another version of the testbed made",
)
@click.option(
    "--adopt",
    is_flag=True,
    help="with --resume: run a repeat of each cell again that another version of the testbed made,"
    " and count its other repeats if that row is the same, up to rounding of its last digits; not"
    " for backend: emulate",
)
@click.option(
    "--cell",
    "cells",
    metavar="ID",
    multiple=True,
    help="run only this cell, in all its repeats; the start of an id is enough; may be repeated",
)
@click.option(
    "--pcap",
    "captures",
    metavar="LINK",
    multiple=True,
    help="write the packets of a link, such as h0-t0, to the cells' logs; may be repeated",
)
@click.option(
    "--series",
    metavar="INTERVAL",
    help="write queues, windows and slots in use to the cells' logs, at this interval of simulated"
    " time, such as 10us; for backend: packet",
)
@click.option(
    "--timeline",
    is_flag=True,
    help="write when ranks, links and switches were busy to the cells' logs, for Perfetto and"
    " chrome://tracing; for backend: packet",
)
@click.option(
    "--executor",
    metavar="WHERE",
    default="local",
    show_default=True,
    help="where cells run: local, or dask:ADDRESS for the machines of a Dask scheduler",
)
@FORCE
def run(
    files: tuple[Path, ...],
    output: Path,
    dry_run: bool,
    resume: Path | None,
    retry: tuple[str, ...],
    any_version: bool,
    adopt: bool,
    cells: tuple[str, ...],
    captures: tuple[str, ...],
    series: str | None,
    timeline: bool,
    executor: str,
    force: bool,
) -> None:
    """Run experiments and write a report about all of them.

    Root: needed for cells with backend: emulate; packet and simulate run without.
    """
    if resume is None and not files:
        raise click.UsageError("found no FILE, wanted at least one, or --resume DIR")
    given = click.get_current_context().get_parameter_source("output")
    if resume is not None and given is not ParameterSource.DEFAULT:
        raise click.UsageError("found --output beside --resume, wanted one of them; rows go to DIR")
    if resume is not None and len(files) > 1:
        raise click.UsageError(f"found {len(files)} FILEs, wanted at most one with --resume")
    for option, value in (("--retry", retry), ("--any-version", any_version), ("--adopt", adopt)):
        if value and resume is None:
            raise click.UsageError(f"found {option} alone, wanted it with --resume DIR")
    if cells and (resume is not None or len(files) != 1):
        raise click.UsageError("--cell needs exactly one FILE, and cannot be used with --resume")
    from testbed.backends.recording import NOTHING, recorded
    from testbed.campaign.evaluation import New, Resumed
    from testbed.campaign.executors import named
    from testbed.campaign.planning import refuse
    from testbed.campaign.resume import Rules
    from testbed.results import EXPERIMENT

    try:
        where = named(executor)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--executor") from error
    try:
        recording = recorded(captures, series, timeline)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--series") from error
    wanted = experiments(files)
    with running():
        evaluations: list[Evaluation] = []
        for path, experiment in zip(files, wanted, strict=True) if resume is None else ():
            with deploying(path):
                evaluations.append(New(experiment, output, cells))
        if resume is not None:
            with deploying(next(iter(files), resume / EXPERIMENT)):
                again = next(iter(wanted), None)
                evaluations.append(Resumed(resume, again, Rules(retry, any_version, adopt)))
        announce(evaluations, dry_run)
        if dry_run:
            return
        if recording != NOTHING and not any(each.planned for each in evaluations):
            click.echo("all cells are finished, so nothing is recorded", err=True)
        if executor == "local" and not force:
            refuse([each for evaluation in evaluations for each in evaluation.planned])
    sources = files if resume is None or files else (resume / EXPERIMENT,)
    report_on(run_all(sources, evaluations, recording, where))


def run_all(
    sources: Sequence[Path],
    evaluations: Sequence[Evaluation],
    recording: Recording,
    where: Executor,
) -> list[tuple[Path, int]]:
    """Run evaluations, each from its source. Returns their directories and numbers of failed
    cells."""
    finished = []
    with running(lambda: rows_kept(evaluations)):
        for path, evaluation in zip(sources, evaluations, strict=True):
            with deploying(path):
                finished.append(evaluation.run(recording, where))
    return finished


def rows_kept(evaluations: Sequence[Evaluation]) -> str:
    """What is left of ``evaluations`` that were interrupted, and how to go on; empty if none has
    begun."""
    begun = [each.directory for each in evaluations if each.directory]
    if not begun:
        return ""
    return f"finished rows are kept, and run --resume {shlex.quote(str(begun[-1]))} continues"


def report_on(finished: Sequence[tuple[Path, int]]) -> None:
    """Report on runs, given as directories and numbers of failed cells. Exit with 1 if any cell
    failed."""
    directories = [directory for directory, _ in finished]
    again = f"ina-testbed report {shlex.join(map(str, directories))}"
    with running(lambda: f"all rows are kept, and {again} writes the report"):
        from testbed.experiment.findings import counted
        from testbed.studies.reporting import report

        click.echo(f"report: {report(directories, directories[-1])}")
    if failures := sum(failed for _, failed in finished):
        click.echo(f"{counted(failures, 'cell')} failed; see the report", err=True)
        sys.exit(1)


def announce(evaluations: Sequence[Evaluation], dry_run: bool = False) -> None:
    """Print what will run, in full for a dry run."""
    from testbed.campaign.planning import title, warned
    from testbed.experiment.findings import counted
    from testbed.report.runs import duration

    for each in evaluations:
        if each.note:
            click.echo(each.note, err=True)
    planned = [cell for each in evaluations for cell in each.planned]
    for cell in planned if dry_run else ():
        click.echo(f"{cell.cell.id}  {title(cell.cell)}  about {max(1, round(cell.seconds))} s")
    if dry_run:
        seconds = sum(each.seconds for each in planned)
        alone = " one at a time" if len(planned) > 1 else ""
        long = f", about {duration(max(1.0, seconds))}{alone}" if planned else ""
        click.echo(f"{counted(len(planned), 'cell')}{long}", err=True)
    for warning in warned(planned):
        click.echo(f"warning: {warning}", err=True)
