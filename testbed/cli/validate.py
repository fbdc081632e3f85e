"""``validate``: errors in experiment files."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from testbed.cli.arguments import FILES, deploying, experiments


@click.command()
@FILES
def validate(files: tuple[Path, ...]) -> None:
    """Check experiment files and plan their cells; report every error with its place.

    Cells that can run, but will probably be invalid or unlike the cluster, give a warning.
    """
    from testbed.campaign.planning import plan, warned
    from testbed.experiment.cells import expand
    from testbed.experiment.findings import counted

    is_valid = True
    for path, experiment in zip(files, experiments(files), strict=True):
        cells = expand(experiment)
        try:
            with deploying(path):
                planned = plan(cells)
        except click.exceptions.Exit:  # the other files are checked, too
            is_valid = False
        else:
            click.echo(f"{path}: {experiment.name}: ok, {counted(len(cells), 'cell')}")
            for warning in warned(planned):
                click.echo(f"{path}: warning: {warning}", err=True)
    if not is_valid:
        sys.exit(2)
