"""``report``: one page on any number of results."""

from __future__ import annotations

from pathlib import Path

import click

from testbed.cli.arguments import DIRECTORY, each_once
from testbed.cli.failures import reading, register, writing


@click.command()
@click.argument("directories", nargs=-1, required=True, type=DIRECTORY, callback=each_once)
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=None,
    help="where to write the report; the last of the directories if not given",
)
def report(directories: tuple[Path, ...], output: Path | None) -> None:
    """Write one report about any number of results directories."""
    searched = register()
    from testbed.run_tables import Unreadable, read_results
    from testbed.studies import reporting
    from testbed.systems import registry

    with reading(Unreadable):
        found: set[str] = set()
        for directory in directories:
            rows = read_results([directory])
            if not len(rows):
                raise Unreadable(f"{directory}: found no row, wanted at least one to report")
            found |= {*rows["system"]}
        if strangers := sorted(found - registry.keys()):
            click.echo(
                f"note: not registered here, so without title, colour and rules:"
                f" {', '.join(strangers)}; {searched}",
                err=True,
            )
        where = output or directories[-1]
        with writing(output):
            where.mkdir(parents=True, exist_ok=True)
            click.echo(f"report: {reporting.report(directories, where)}")
