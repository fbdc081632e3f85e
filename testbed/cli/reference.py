"""``reference``: make the reference evaluation, or check it before a release."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from testbed.cli.arguments import DIRECTORY, each_once
from testbed.cli.failures import reading


@click.command()
@click.argument("runs", nargs=-1, type=DIRECTORY, callback=each_once)
@click.option("--check", is_flag=True, help="only say whether it is up to date with the code")
@click.option(
    "--claims", type=DIRECTORY, help="the directory with the claims page, such as results/claims"
)
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    help="the directory of the reference; reports/reference if not given",
)
def reference(
    runs: tuple[Path, ...], check: bool, claims: Path | None, output: Path | None
) -> None:
    """Make the reference evaluation from results directories, or check the existing one.

    RUNS are results directories. With --check nothing is written; if the reference is stale, it
    says why and exits with 1.
    """
    if check == bool(runs) or (check and claims):
        raise click.UsageError("wanted either RUNS, to make a reference, or --check alone")
    from testbed.deployment.errors import DeploymentError
    from testbed.located import Invalid
    from testbed.report.quote import REFERENCE
    from testbed.run_tables import Unreadable
    from testbed.studies import reference

    where = output or REFERENCE
    if not check:
        with reading(DeploymentError, Invalid, Unreadable):
            click.echo(f"reference: {reference.keep(runs, claims, where)}")
        return
    if not where.is_dir():
        raise click.UsageError(f"found no directory {where}, wanted a reference")
    problems = list(reference.stale(where))
    for problem in problems:
        click.echo(problem, err=True)
    if problems:
        click.echo("stale; make it again with ./run_all.sh --reference", err=True)
        sys.exit(1)
    click.echo(f"{where}: up to date with the code")
