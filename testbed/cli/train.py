"""``train``: experiments whose jobs learn, and a report with their accuracy over time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from testbed.cli.arguments import FILES, OUTPUT, experiments
from testbed.cli.failures import ROWS_ARE_KEPT, running
from testbed.cli.run import report_on

if TYPE_CHECKING:
    import pandas as pd


@click.command()
@FILES
@OUTPUT
def train(files: tuple[Path, ...], output: Path) -> None:
    """Train models over the fabric, and report accuracy over time.

    PyTorch computes the gradients for real; in virtual time this takes as long as the workload's
    trace says, and communication takes its simulated time. With backend: emulate, jobs train in
    Mininet. Jobs without the key training only replay gradients.

    Root: needed for cells with backend: emulate; packet and simulate run without.
    """
    wanted = experiments(files)
    for path, experiment in zip(files, wanted, strict=True):
        if not any(job.training for job in experiment.jobs):
            raise click.UsageError(
                f"{path}: found no job with the key training, wanted at least one; write for"
                " example training: {rate: 0.05}, or use the verb run"
            )
    from testbed import results
    from testbed.backends.recording import NOTHING
    from testbed.campaign.evaluation import New
    from testbed.campaign.local import Local

    with running():
        evaluations = [New(experiment, output) for experiment in wanted]
    with running(ROWS_ARE_KEPT):
        finished = [evaluation.run(NOTHING, Local()) for evaluation in evaluations]
    for line in summary(results.read_training([directory for directory, _ in finished])):
        click.echo(line)
    report_on(finished)


def summary(training: pd.DataFrame) -> list[str]:
    """A line for each system and workload: its last metric and its time to the target."""
    from testbed.report.training import reached
    from testbed.workload.catalogue import title

    lines = []
    for (workload, system), own in training.groupby(["workload", "system"], sort=False):
        runs = reached(own)
        text = (
            f"{title(str(workload))}, {system}: {runs['metric'].iloc[0]} {runs['last'].mean():.3g}"
        )
        text += f" after {runs['time_s'].mean():.3g} s"
        if runs["target_value"].notna().any():
            times = runs["target_s"].dropna()
            text += f"; {runs['target_value'].iloc[0]:g} "
            text += f"after {times.mean():.3g} s" if len(times) else "not reached"
            text += f" ({len(times)} of {len(runs)} runs)"
        lines.append(text)
    return lines
