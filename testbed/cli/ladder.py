"""``ladder``: closed form, simulator, packets and emulator side by side."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from testbed.cli.arguments import OUTPUT, Input, experiments
from testbed.cli.failures import reading, running
from testbed.cli.run import announce, rows_kept

if TYPE_CHECKING:
    from testbed.campaign.evaluation import Evaluation


@click.command()
@click.argument("paths", nargs=-1, required=True, type=Input(exists=True, path_type=Path))
@OUTPUT
def ladder(paths: tuple[Path, ...], output: Path) -> None:
    """Compare closed form, simulator, packets and emulator, and print their errors.

    A PATH is an experiment file, which runs on all back ends, or a directory of results, which
    is only read. Exits with 1 unless the errors are within the bounds, or if the simulator or
    packets failed where the emulator did not.

    Root: needed to run an experiment file, because it also runs in the emulator.
    """
    from testbed import results, run_tables
    from testbed.backends.recording import NOTHING
    from testbed.campaign.evaluation import New
    from testbed.campaign.local import Local
    from testbed.campaign.resume import experiment_of
    from testbed.report import again, runs
    from testbed.studies import ladder as steps
    from testbed.studies.all_backends import on_all

    directories = [path for path in paths if path.is_dir()]
    known = []
    with reading(ValueError):  # before minutes of running
        for directory in directories:
            run_tables.read(directory)
            known += [experiment_of(file.parent) for file in directory.rglob(results.RESULTS)]
    wanted = [on_all(each) for each in experiments(path for path in paths if not path.is_dir())]
    with running():
        strained = {cell for each in (*known, *wanted) for cell in steps.strained_cells(each)}
        evaluations = [New(experiment, output) for experiment in wanted]
        announce(evaluations)
    with running(lambda: _and_then(evaluations)):
        directories += [evaluation.run(NOTHING, Local())[0] for evaluation in evaluations]
    with reading(ValueError):
        every = run_tables.read(directories).results
        rows = steps.ladder(again.latest(every, runs.of(every)), strained)
    click.echo(steps.text(rows))
    sys.exit(0 if steps.is_met(rows) else 1)


def _and_then(evaluations: Sequence[Evaluation]) -> str:
    """What an interruption leaves, how to go on, and how to see the errors then."""
    kept = rows_kept(evaluations)
    found = shlex.join(str(each.directory) for each in evaluations if each.directory)
    return f"{kept}; then ladder {found} prints the errors" if kept else ""
