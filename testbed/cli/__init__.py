"""The command line: verbs, nothing else."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from testbed.located import Invalid

if TYPE_CHECKING:
    from testbed.campaign.evaluation import Evaluation

_FILES = click.argument(
    "files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)

_OUTPUT = click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=Path("results"),
    show_default=True,
    help="where results directories are made",
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="ina-testbed")
def main() -> None:
    """Gradient synchronisation and in-network aggregation, side by side on one machine."""


@main.command()
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@_OUTPUT
@click.option(
    "--dry-run", is_flag=True, help="list the cells and their expected times, run nothing"
)
@click.option(
    "--resume",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="run what is missing in a run's directory; a FILE takes the place of its experiment",
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
    help="with --resume: let rows count that another version of the testbed made",
)
@click.option(
    "--pcap",
    "captures",
    metavar="LINK",
    multiple=True,
    help="write what passes on a link, such as h0-t0, to the cells' logs; may be repeated",
)
@click.option(
    "--executor",
    metavar="WHERE",
    default="local",
    show_default=True,
    help="where cells run: local, or dask:ADDRESS for the machines of a Dask scheduler",
)
@click.option(
    "--force", is_flag=True, help="run even what is clearly beyond this machine, by its calibration"
)
def run(
    files: tuple[Path, ...],
    output: Path,
    dry_run: bool,
    resume: Path | None,
    retry: tuple[str, ...],
    any_version: bool,
    captures: tuple[str, ...],
    executor: str,
    force: bool,
) -> None:
    """Run experiments and write a report over all of them."""
    if resume is None and not files:
        raise click.UsageError("found no FILE, wanted at least one, or --resume DIR")
    if resume is not None and len(files) > 1:
        raise click.UsageError(f"found {len(files)} FILEs, wanted at most one beside --resume")
    from testbed.campaign.evaluation import New, Resumed
    from testbed.campaign.executors import named
    from testbed.campaign.planning import refuse
    from testbed.campaign.resume import Rules
    from testbed.experiment.findings import counted

    try:
        where = named(executor)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--executor") from error
    experiments = _read(files)
    finished = []
    with _running():
        evaluations: list[Evaluation] = (
            [New(experiment, output) for experiment in experiments]
            if resume is None
            else [Resumed(resume, next(iter(experiments), None), Rules(retry, any_version))]
        )
        _announce(evaluations, dry_run)
        if dry_run:
            return
        if executor == "local" and not force:
            refuse([each for evaluation in evaluations for each in evaluation.planned])
        for evaluation in evaluations:
            finished.append(evaluation.run(captures, where))
    from testbed.studies.reporting import report

    directories = [directory for directory, _ in finished]
    click.echo(f"report: {report(directories, directories[-1])}")
    if failures := sum(failed for _, failed in finished):
        click.echo(f"{counted(failures, 'cell')} failed; see the report", err=True)
        sys.exit(1)


@contextmanager
def _running() -> Iterator[None]:
    """What may go wrong while experiments are run, in words."""
    from testbed.backends.emulation.network import EmulationError
    from testbed.campaign.isolation import Terminated, termination_unwinds
    from testbed.deployment.errors import DeploymentError

    try:
        with termination_unwinds():
            yield
    except (DeploymentError, EmulationError) as error:
        raise click.ClickException(str(error)) from error
    except (KeyboardInterrupt, Terminated):
        click.echo("interrupted; finished rows are kept, and run --resume goes on", err=True)
        sys.exit(130)


def _announce(evaluations: list[Evaluation], dry_run: bool) -> None:
    """Say what is about to be run, in full for a dry run."""
    from testbed.campaign.planning import title
    from testbed.campaign.progress import clock
    from testbed.experiment.findings import counted

    for each in evaluations:
        if each.note:
            click.echo(each.note, err=True)
    planned = [cell for each in evaluations for cell in each.planned]
    for cell in planned if dry_run else ():
        click.echo(f"{cell.cell.id}  {title(cell.cell)}  about {cell.seconds:.0f} s")
    if dry_run:
        seconds = sum(each.seconds for each in planned)
        click.echo(f"{counted(len(planned), 'cell')}, {clock(seconds)}", err=True)
    for warning in dict.fromkeys(each.warning for each in planned if each.warning):
        click.echo(f"warning: {warning}", err=True)


@main.command()
@_FILES
def validate(files: tuple[Path, ...]) -> None:
    """Check experiment files, and plan their cells; say all that is wrong, and where."""
    from testbed.campaign.planning import plan
    from testbed.deployment.errors import DeploymentError
    from testbed.experiment.cells import expand
    from testbed.experiment.findings import counted

    all_well = True
    for path, experiment in zip(files, _read(files), strict=True):
        try:
            cells = plan(expand(experiment))
        except DeploymentError as error:
            all_well = False
            for problem in str(error).splitlines():
                click.echo(f"{path}: {problem}", err=True)
        else:
            click.echo(f"{path}: {experiment.name}: ok, {counted(len(cells), 'cell')}")
    if not all_well:
        sys.exit(2)


@main.command(name="report")
@click.argument(
    "directories",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=None,
    help="where the report goes; the last of the directories if not given",
)
def report_(directories: tuple[Path, ...], output: Path | None) -> None:
    """Write one report over any number of results directories."""
    from testbed.studies.reporting import report

    click.echo(f"report: {report(directories, output or directories[-1])}")


@main.command()
@click.argument("base", type=click.Path(path_type=Path))
@click.argument("new", type=click.Path(path_type=Path))
@click.option(
    "--tolerance",
    metavar="[BACKEND=]SHARE",
    multiple=True,
    help="by how much figures may change: 10%, or simulate=1%; may be repeated"
    "  [default: simulate=1%, emulate=10%]",
)
@click.option("--all", "everything", is_flag=True, help="show what did not move, too")
def compare(base: Path, new: Path, tolerance: tuple[str, ...], everything: bool) -> None:
    """Compare results: ratios between systems, and times over the closed form's.

    BASE and NEW are results directories, or files that `baseline` wrote. Exits with 1 if anything
    moved by more than the tolerance, failed that did not before, or sent packets again that were
    not lost.
    """
    from testbed.studies import comparison
    from testbed.studies.baseline import Unreadable, load

    try:
        allowed = comparison.tolerances(tolerance)
        found = comparison.compare(load(base), load(new), allowed)
    except (Unreadable, ValueError) as error:
        raise click.UsageError(str(error)) from error
    for line in comparison.lines(found, everything):
        click.echo(line)
    sys.exit(0 if found.passed else 1)


@main.command()
@click.argument("directories", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="the file to write",
)
def baseline(directories: tuple[Path, ...], output: Path) -> None:
    """Keep what results amount to in a small file, for `compare`."""
    from testbed.studies.baseline import Unreadable, save
    from testbed.studies.baseline import directories as read

    try:
        kept = save(read(directories), output)
    except (Unreadable, OSError) as error:
        raise click.UsageError(str(error)) from error
    click.echo(f"wrote {output}: {kept} valid rows")


@main.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--simulate-only", is_flag=True, help="run no experiment that is emulated")
@click.option("--any-version", is_flag=True, help="let rows count that other code made")
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("results/claims"),
    show_default=True,
    help="where the page goes, and results, to which a later call adds what is missing",
)
def claims(names: tuple[str, ...], simulate_only: bool, any_version: bool, output: Path) -> None:
    """Judge what papers claim; NAME is a file of experiments/claims or one of its claims."""
    from testbed.campaign.isolation import Terminated, termination_unwinds
    from testbed.campaign.resume import Rules
    from testbed.studies.claims import run as claims

    try:
        with termination_unwinds():
            rules = Rules(any_version=any_version)
            judged = claims.run(claims.read(), output, names, simulate_only, rules)
    except Invalid as invalid:
        click.echo(str(invalid), err=True)
        sys.exit(2)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    except (KeyboardInterrupt, Terminated):
        click.echo("interrupted; finished rows are kept, and the same command goes on", err=True)
        sys.exit(130)
    for each in judged:
        if not names or {each.file.name, each.claim.name} & set(names):
            click.echo(f"{each.claim.name}: {each.number}, {each.verdict.word}")
    click.echo(f"page: {claims.write(judged, output)}")


@main.command()
@click.argument("capture", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def decode(capture: Path) -> None:
    """Show the INA packets of a capture as text."""
    from testbed.switches.decode import NoCapture, lines

    try:
        for line in lines(capture):
            click.echo(line)
    except NoCapture as error:
        raise click.ClickException(str(error)) from error


@main.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@_OUTPUT
def ladder(paths: tuple[Path, ...], output: Path) -> None:
    """Closed form, simulator and emulator side by side, with their errors.

    A PATH is an experiment file, which is run on both back ends, or a directory of results, which
    is read as it is. Exits with 1 unless the simulator is as near as it should be.
    """
    from testbed.campaign.evaluation import New
    from testbed.campaign.local import Local
    from testbed.results import read
    from testbed.studies.both_backends import on_both
    from testbed.studies.ladder import is_met, ladder, text

    directories = [path for path in paths if path.is_dir()]
    experiments = _read(tuple(path for path in paths if not path.is_dir()))
    with _running():
        evaluations = [New(on_both(experiment), output) for experiment in experiments]
        _announce(list(evaluations), dry_run=False)
        directories += [evaluation.run((), Local())[0] for evaluation in evaluations]
    try:
        rows = ladder(read(directories).results)
    except FileNotFoundError as error:
        raise click.ClickException(str(error)) from error
    click.echo(text(rows))
    sys.exit(0 if is_met(rows) else 1)


@main.command()
@_FILES
@click.option("--budget", type=click.IntRange(min=0), required=True, help="how many at most")
def place(files: tuple[Path, ...], budget: int) -> None:
    """Say which switches to make programmable for the lowest JCT, as simulated.

    The fabric's ina_tier says which may be chosen: the ToRs, or any switch.
    """
    from testbed.deployment.errors import DeploymentError
    from testbed.placement.advice import advice

    try:
        for path, experiment in zip(files, _read(files), strict=True):
            for answer in advice(experiment, budget):
                click.echo(f"{path}\n{answer}\n")
    except DeploymentError as error:
        raise click.ClickException(str(error)) from error


@main.command()
def doctor() -> None:
    """Say what this machine has, lacks and limits, and what mends it."""
    from testbed.machine import calibration
    from testbed.machine.doctor import checks

    missing = 0
    for check in (*checks(), calibration.check()):
        click.echo(f"{check.status:8} {check.name:14} {check.detail}")
        if check.mend:
            click.echo(f"{'':24}{check.mend}")
        missing += check.status == "missing"
    sys.exit(1 if missing else 0)


@main.command()
@click.option("--force", is_flag=True, help="even while the machine is busy with something else")
def calibrate(force: bool) -> None:
    """Measure what this machine carries, for `dilation: auto` and for warnings."""
    from testbed.machine import calibration
    from testbed.machine.calibration_runs import calibrate as measure

    with _running():
        measured = measure(lambda line: click.echo(line, err=True), force)
    click.echo("\n".join(calibration.describe(measured)))
    click.echo(f"kept in {calibration.store(measured)}")


@main.command()
def clean() -> None:
    """Remove what earlier runs of the testbed left, and nothing else."""
    from testbed.backends.emulation.cleanup import clean as remove

    removed = remove()
    for line in removed:
        click.echo(f"removed {line}")
    if not removed:
        click.echo("nothing to remove")


@main.command()
def schema() -> None:
    """Print the JSON schema of experiment files, for editors."""
    from testbed.experiment.jsonschema import text
    from testbed.systems import registry

    click.echo(text(registry), nl=False)


@main.group()
def trace() -> None:
    """Look at workloads, and exchange them with other tools."""


@trace.command()
@click.argument("workload")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="draw the timeline: .png, .pdf or .svg"
)
@click.option("--bucket", default="25MB", show_default=True, help="size of a bucket")
@click.option("--first-bucket", default="1MB", show_default=True, help="size of the first bucket")
@click.option("--rate", default="10Gbit", show_default=True, help="a bucket's bytes over its time")
@click.option("--priority", is_flag=True, help="send first what the next forward pass needs first")
@click.option("--tensors", is_flag=True, help="list every tensor, too")
def show(workload: str, output: Path | None, **how: Any) -> None:
    """Show a workload's buckets and timeline; WORKLOAD is a name or a file."""
    from testbed.workload.show import show

    try:
        show(workload, output, **how)
    except (OSError, ValueError) as error:
        raise click.ClickException(str(error)) from error


_OUT = click.argument("out", type=click.Path(dir_okay=False, path_type=Path))


@trace.command(name="import")
@click.argument("file")
@_OUT
def import_(file: str, out: Path) -> None:
    """Make a trace of a Chakra execution trace (.et) or SwitchML's layer list (.csv)."""
    _convert(file, out)


@trace.command()
@click.argument("workload")
@_OUT
def export(workload: str, out: Path) -> None:
    """Write a workload as a Chakra execution trace (.et) or SwitchML's layer list (.csv)."""
    _convert(workload, out)


def _convert(workload: str, out: Path) -> None:
    from testbed.workload import formats

    try:
        formats.save(formats.load(workload), out)
    except ValueError as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"wrote {out}")


def _read(files: tuple[Path, ...]) -> list:  # type: ignore[type-arg]
    from testbed.campaign import evaluation

    experiments, problems = [], []
    for path in files:
        try:
            experiments.append(evaluation.read(path))
        except Invalid as invalid:
            problems.append(str(invalid))
    if problems:
        click.echo("\n".join(problems), err=True)
        sys.exit(2)
    return experiments
