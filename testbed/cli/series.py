"""``series``: a figure of a cell's time series."""

from __future__ import annotations

from pathlib import Path

import click

from testbed.cli.arguments import FILE
from testbed.cli.failures import reading


@click.command()
@click.argument("table", metavar="FILE", type=FILE)
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=None,
    help="where to write series.pdf and series.png; beside FILE if not given",
)
def series(table: Path, output: Path | None) -> None:
    """Draw queues, windows and slots over time, from the series.csv of `run --series`."""
    from testbed.report import canvas, figures
    from testbed.report.series import NoSeries, drawn, read

    where = output or table.parent
    with reading(NoSeries), canvas.paper():
        figures.save({"series": drawn(read(table))}, where)
    click.echo(f"figure: {where / 'series.pdf'}")
