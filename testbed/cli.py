"""The command line: verbs, nothing else."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from testbed.located import Invalid

_FILES = click.argument(
    "files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="ina-testbed")
def main() -> None:
    """Gradient synchronisation and in-network aggregation, side by side on one machine."""


@main.command()
@_FILES
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=Path("results"),
    show_default=True,
    help="where results directories are made",
)
@click.option(
    "--dry-run", is_flag=True, help="list the cells and their expected times, run nothing"
)
@click.option(
    "--pcap",
    "captures",
    metavar="LINK",
    multiple=True,
    help="write what passes on a link, such as h0-t0, to the cells' logs; may be repeated",
)
def run(files: tuple[Path, ...], output: Path, dry_run: bool, captures: tuple[str, ...]) -> None:
    """Run experiments and write a report over all of them."""
    from testbed.emulation.network import EmulationError, require
    from testbed.harness import evaluation
    from testbed.harness.errors import DeploymentError
    from testbed.harness.isolation import Terminated, termination_unwinds

    experiments = _read(files)
    try:
        planned = [evaluation.plan(experiment) for experiment in experiments]
        if dry_run:
            for cells in planned:
                for cell, seconds in cells:
                    click.echo(f"{cell.id}  {evaluation.title(cell)}  about {seconds:.0f} s")
            return
        require()
        for experiment in experiments:
            for warning in evaluation.warnings(experiment):
                click.echo(f"warning: {warning}", err=True)
        directories, failures = [], 0
        with termination_unwinds():
            for experiment in experiments:
                directory, failed = evaluation.run(experiment, output, captures)
                directories.append(directory)
                failures += failed
    except (DeploymentError, EmulationError) as error:
        raise click.ClickException(str(error)) from error
    except (KeyboardInterrupt, Terminated):
        click.echo("interrupted; finished rows are kept", err=True)
        sys.exit(130)
    from testbed.harness.reporting import report

    page = report(directories, directories[-1])
    click.echo(f"report: {page}")
    if failures:
        click.echo(f"{failures} cells failed; see the report", err=True)
        sys.exit(1)


@main.command()
@_FILES
def validate(files: tuple[Path, ...]) -> None:
    """Check experiment files; say all that is wrong, and where."""
    for path, experiment in zip(files, _read(files), strict=True):
        click.echo(f"{path}: {experiment.name}: ok")


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
    from testbed.harness.reporting import report

    click.echo(f"report: {report(directories, output or directories[-1])}")


@main.command()
@click.argument("capture", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def decode(capture: Path) -> None:
    """Show the INA packets of a capture as text."""
    from testbed.dataplane.decode import NoCapture, lines

    try:
        for line in lines(capture):
            click.echo(line)
    except NoCapture as error:
        raise click.ClickException(str(error)) from error


@main.command()
def doctor() -> None:
    """Say what this machine has, lacks and limits, and what mends it."""
    from testbed.emulation.doctor import checks

    missing = 0
    for check in checks():
        click.echo(f"{check.status:8} {check.name:14} {check.detail}")
        if check.mend:
            click.echo(f"{'':24}{check.mend}")
        missing += check.status == "missing"
    sys.exit(1 if missing else 0)


@main.command()
def clean() -> None:
    """Remove what earlier runs of the testbed left, and nothing else."""
    from testbed.emulation.cleanup import clean as remove

    removed = remove()
    for line in removed:
        click.echo(f"removed {line}")
    if not removed:
        click.echo("nothing to remove")


@main.command()
def schema() -> None:
    """Print the JSON schema of experiment files, for editors."""
    from testbed.experiment.jsonschema import text

    click.echo(text(), nl=False)


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
    from testbed.harness import evaluation

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
