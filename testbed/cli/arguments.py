"""Arguments that several verbs share, and the experiments that they name."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from testbed.located import Invalid, Located, Place

if TYPE_CHECKING:
    from testbed.experiment.schema import Experiment


class Input(click.Path):
    """A path that can be read to its end: neither it nor a file of the runs below it is a device or
    a pipe."""

    def convert(
        self, value: Any, param: click.Parameter | None, context: click.Context | None
    ) -> Any:
        path = Path(os.fsdecode(super().convert(value, param, context)))
        files = [path]
        if path.is_dir():
            from testbed.results import RESULTS  # slow to import

            for run in {file.parent for file in path.rglob(RESULTS)}:
                files += run.iterdir()
        for file in files:
            if file.exists() and not file.is_file() and not file.is_dir():
                self.fail(f"found a device or a pipe at {file}, wanted a file", param, context)
        return path


class Seconds(click.FloatRange):
    """A time of at least ``min``. It rejects NaN, which a range would accept."""

    def convert(
        self, value: Any, param: click.Parameter | None, context: click.Context | None
    ) -> Any:
        seconds = super().convert(value, param, context)
        if not math.isfinite(seconds):
            self.fail(f"found {value}, wanted a number of seconds", param, context)
        return seconds


def each_once(
    _context: click.Context, _parameter: click.Parameter, paths: tuple[Path, ...]
) -> tuple[Path, ...]:
    """The paths without a second one to the same place, whose rows would count twice."""
    found: dict[Path, Path] = {}
    for path in paths:
        found.setdefault(path.resolve(), path)
    return tuple(found.values())


def check_suffix(path: Path, *suffixes: str) -> None:
    """Raise BadParameter if a file that a verb writes has another suffix: it could replace any
    file."""
    if path.suffix not in suffixes:
        wanted = f"wanted a name that ends in {' or '.join(suffixes)}"
        raise click.BadParameter(f"found {path}, {wanted}")


FILE = Input(exists=True, dir_okay=False, path_type=Path)
FILE_OR_DIRECTORY = Input(path_type=Path)
DIRECTORY = Input(exists=True, file_okay=False, path_type=Path)

FILES = click.argument("files", nargs=-1, required=True, type=FILE, callback=each_once)

OUTPUT = click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("results"),
    show_default=True,
    help="where to create results directories",
)


@contextmanager
def deploying(path: Path) -> Iterator[None]:
    """Report what cannot be deployed, with its place in the file at ``path``, and raise click's
    Exit(2). What is wrong with a swept field is placed at the sweep: the cell's title says its
    value."""
    from testbed import located
    from testbed.deployment.errors import Undeployable

    try:
        yield
    except Undeployable as error:
        file = located.read(path)
        for each in error.problems:
            place = _swept(file, each.place) or each.place
            problem = file.problem(place, str(each), at_key=place != each.place)
            click.echo(replace(problem, path=""), err=True)
        raise click.exceptions.Exit(2) from error


def _swept(file: Located, place: Place) -> Place | None:
    """The place of the swept path that sets what is at ``place``; None if no path does."""
    from testbed.experiment.sweep import place_of

    for key in file.keys:
        if key[0] == "sweep" and "exclude" not in key:
            set_at = place_of(str(key[-1]))
            # A job's own place stands for its system.
            if place[: len(set_at)] == set_at or (*place, "system") == set_at:
                return key
    return None


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
        raise click.exceptions.Exit(2)
    return found
