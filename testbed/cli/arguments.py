"""Arguments that several verbs share, and the experiments that they name."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from testbed.located import Invalid

if TYPE_CHECKING:
    from testbed.experiment.schema import Experiment

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
DIRECTORY = click.Path(exists=True, file_okay=False, path_type=Path)

FILES = click.argument("files", nargs=-1, required=True, type=FILE)

OUTPUT = click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("results"),
    show_default=True,
    help="where to create results directories",
)


def experiments(files: Iterable[Path]) -> list[Experiment]:
    """The experiments of ``files``; on any problem, exit with code 2 and list all of them."""
    from testbed.deployment.experiments import read

    found, problems = [], []
    for path in files:
        try:
            found.append(read(path))
        except Invalid as invalid:
            problems.append(str(invalid))
    if problems:
        click.echo("\n".join(problems), err=True)
        sys.exit(2)
    return found
