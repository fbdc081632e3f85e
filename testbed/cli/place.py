"""``place``: which switches to make programmable."""

from __future__ import annotations

from pathlib import Path

import click

from testbed.cli.arguments import FILES, experiments


@click.command()
@FILES
@click.option(
    "--budget",
    type=click.IntRange(min=0),
    required=True,
    help="the most switches to make programmable",
)
def place(files: tuple[Path, ...], budget: int) -> None:
    """Say which switches to make programmable for the lowest JCT, as simulated.

    The fabric's ina_tier says which may be chosen: the ToRs, or any switch.
    """
    from testbed.deployment.errors import DeploymentError
    from testbed.placement.advice import advice

    try:
        for path, experiment in zip(files, experiments(files), strict=True):
            for answer in advice(experiment, budget):
                click.echo(f"{path}\n{answer}\n")
    except DeploymentError as error:
        raise click.ClickException(str(error)) from error
