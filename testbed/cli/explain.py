"""``explain``: where a job's time went."""

from __future__ import annotations

import math
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from testbed.cli.arguments import Input, deploying, experiments
from testbed.cli.failures import reading, running, writing

if TYPE_CHECKING:
    from testbed.experiment.cells import Cell


@click.command()
@click.argument("path", metavar="RUN|FILE", required=False, type=Input(exists=True, path_type=Path))
@click.option("--cell", metavar="ID", help="the cell to explain; the start of an id is enough")
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
    help="how many cells to explain: the slowest of a RUN, on all back ends together, relative to"
    " their closed form, or the first of a FILE",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=None,
    help="where to write tables and figures; RUN if not given, and nowhere for a FILE",
)
@click.option(
    "--drills",
    is_flag=True,
    help="instead, hide 20 faults in ordinary experiments and say which are found; exits with 1"
    " unless at least 18 are found, and none in 20 healthy runs",
)
def explain(
    path: Path | None, cell: str | None, job: int, most: int, output: Path | None, drills: bool
) -> None:
    """Say where a job's time went, in parts that add up to its JCT.

    RUN is a run's directory, or a directory above it; then the last run is explained.
    A cell in packets runs again without each cause; a part is the time that this saves. A warning
    says if it no longer gives the JCT of its row. Rows of other back ends are explained from their
    tables, which do not show every cause.
    """
    if drills:
        _drill()
        return
    if path is None:
        raise click.UsageError("found no RUN or FILE, wanted one, or --drills")
    from testbed.campaign.planning import NoCell
    from testbed.studies.explain.cells import of_experiment, of_run
    from testbed.studies.explain.measured import lines
    from testbed.studies.explain.study import lines as told
    from testbed.studies.explain.study import study, write

    where = output
    cells: Sequence[tuple[Cell, float | None]]
    if path.is_dir():
        from testbed.located import Invalid
        from testbed.results import EXPERIMENT
        from testbed.run_tables import Unreadable, last_run, read_metadata

        with reading(NoCell, Unreadable, Invalid):
            path = last_run(path)
            read_metadata(path)  # a damaged run is refused, as by other verbs
            cells, others = of_run(path, cell, most, job)
            where = output or path
            for line in lines(path, others):
                click.echo(line)
            path /= EXPERIMENT
    else:
        (experiment,) = experiments([path])
        with reading(NoCell):
            cells = [(each, None) for each in of_experiment(experiment, cell, most)]
    with running(), deploying(path):
        for each, before in cells:
            found = study(each, job)
            if before is not None and not math.isclose(found.jct_s, before, rel_tol=1e-6):
                click.echo(
                    f"warning: the row of {each.id} has a JCT of {before:.7g} s, but this code and"
                    f" these workloads give {found.jct_s:.7g} s; run --resume"
                    f" {shlex.quote(str(path.parent))} runs stale cells again",
                    err=True,
                )
            click.echo(told(each, found))
            if where is not None:
                with writing(output):
                    click.echo(write(each, found, where))


def _drill() -> None:
    from testbed.studies.explain import drills

    done = drills.Score()
    with running():
        for line in drills.table(done):
            click.echo(line)
    sys.exit(0 if done.is_met else 1)
