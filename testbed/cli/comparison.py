"""``compare`` and ``baseline``: changes between two sets of results."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from testbed.cli.arguments import FILE_OR_DIRECTORY, check_suffix, each_once
from testbed.cli.failures import reading


@click.command()
@click.argument("base", type=FILE_OR_DIRECTORY)
@click.argument("new", type=FILE_OR_DIRECTORY)
@click.option(
    "--tolerance",
    metavar="[BACKEND=]SHARE",
    multiple=True,
    help="by how much figures may change: 10%, or simulate=1%; may be repeated"
    "  [default: simulate=1%, packet=0.001%, emulate=10%]",
)
@click.option("--partial", is_flag=True, help="NEW may lack settings and systems of BASE")
@click.option("--all", "everything", is_flag=True, help="also show figures that did not change")
def compare(
    base: Path, new: Path, tolerance: tuple[str, ...], partial: bool, everything: bool
) -> None:
    """Compare results: ratios between systems, times over the closed form's, and, in virtual time,
    times.

    BASE and NEW are results directories, or files that `baseline` wrote. Exits with 1 if a figure
    changed by more than the tolerance, a system failed that did not before or has no row any more,
    or packets were retransmitted without loss.
    """
    from testbed.studies import comparison
    from testbed.studies.baseline import load

    with reading(ValueError):
        allowed = comparison.tolerances(tolerance)
        found = comparison.compare(load(base), load(new), allowed, partial)
    for line in comparison.lines(found, everything):
        click.echo(line)
    sys.exit(0 if found.passed else 1)


@click.command()
@click.argument("directories", nargs=-1, required=True, type=FILE_OR_DIRECTORY, callback=each_once)
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="the file to write",
)
def baseline(directories: tuple[Path, ...], output: Path) -> None:
    """Summarise results in a small file, for `compare`."""
    from testbed.experiment.findings import counted
    from testbed.run_tables import Unreadable
    from testbed.studies import baseline as kept

    check_suffix(output, ".json")
    with reading(Unreadable):
        count = kept.save(kept.directories(directories), output)
    click.echo(f"wrote {output}: {counted(count, 'valid row')}")
