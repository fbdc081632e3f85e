"""``explain``: where a job's time went."""

from __future__ import annotations

from pathlib import Path

import click

from testbed.cli.arguments import experiments
from testbed.cli.failures import reading, running


@click.command()
@click.argument("path", metavar="RUN|FILE", type=click.Path(exists=True, path_type=Path))
@click.option("--cell", metavar="ID", help="the cell to explain; an id may be cut short")
@click.option(
    "--job",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="the job to explain, by its place in the experiment",
)
@click.option(
    "--most",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="explain so many cells: of a RUN the slowest, by their closed form, of a FILE the first",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=None,
    help="where to write tables and figures; in RUN if not given, and nowhere for a FILE",
)
def explain(path: Path, cell: str | None, job: int, most: int, output: Path | None) -> None:
    """Say where a job's time went: sentences, a table and a figure that add up to its JCT.

    A cell in packets runs again without each cause, so a part is what its absence gains. For rows
    of other back ends it is what their tables tell, and what they cannot.
    """
    from testbed.studies.explain.cells import NoCell, of_experiment, of_run
    from testbed.studies.explain.measured import lines
    from testbed.studies.explain.study import study

    if path.is_dir():
        from testbed.located import Invalid
        from testbed.results import Unreadable

        with reading(NoCell, Unreadable, Invalid):
            cells, others = of_run(path, cell, most)
        output = output or path
        for line in lines(path, others):
            click.echo(line)
    else:
        (experiment,) = experiments([path])
        with reading(NoCell):
            cells = of_experiment(experiment, cell, most)
    with running():
        for each in cells:
            click.echo(study(each, job, output))
