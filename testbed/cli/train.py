"""``train``: experiments whose jobs learn, and a report with their accuracy over time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from testbed.cli.arguments import FILES, OUTPUT, deploying, experiments
from testbed.cli.failures import running
from testbed.cli.run import DRY_RUN, FORCE, announce, report_on, run_all

if TYPE_CHECKING:
    import pandas as pd

    from testbed.experiment.schema import Experiment


@click.command()
@FILES
@OUTPUT
@DRY_RUN
@click.option(
    "--device",
    help="where PyTorch computes gradients, such as cuda, for all jobs  [default: the files' key"
    " training.device, or cpu]",
)
@FORCE
def train(
    files: tuple[Path, ...], output: Path, dry_run: bool, device: str | None, force: bool
) -> None:
    """Train models over the fabric, and report accuracy over time.

    PyTorch computes the gradients for real; in virtual time this takes as long as the workload's
    trace says, and communication takes its simulated time. With backend: emulate, jobs train in
    Mininet. Jobs without the key training only replay gradients. On the CPU the same seed gives the
    same bits; on a GPU that depends on the model's operations.

    Root: needed for cells with backend: emulate; packet and simulate run without.
    """
    wanted = experiments(files)
    for path, experiment in zip(files, wanted, strict=True):
        if not any(job.training for job in experiment.jobs):
            raise click.UsageError(
                f"{path}: found no job with the key training, wanted at least one; write for"
                " example training: {rate: 0.05}, or use the verb run"
            )
    from testbed import run_tables
    from testbed.backends.recording import NOTHING
    from testbed.campaign.evaluation import New
    from testbed.campaign.local import Local
    from testbed.campaign.planning import refuse

    with running():
        if device is not None:
            wanted = _moved([*zip(files, wanted, strict=True)], device)
        evaluations = []
        for path, experiment in zip(files, wanted, strict=True):
            with deploying(path):
                evaluations.append(New(experiment, output))
        announce(evaluations, dry_run)
        if dry_run:
            return
        if not force:
            refuse([each for evaluation in evaluations for each in evaluation.planned])
    finished = run_all(files, evaluations, NOTHING, Local())
    for line in summary(run_tables.read_training([directory for directory, _ in finished])):
        click.echo(line)
    report_on(finished)


def _moved(experiments: Sequence[tuple[Path, Experiment]], device: str) -> list[Experiment]:
    """The experiments with all jobs that learn on ``device``."""
    from testbed.campaign.devices import fault
    from testbed.experiment.cells import distinct
    from testbed.training.errors import require_torch

    require_torch()
    if (said := fault(device)) is not None:
        raise click.BadParameter(said, param_hint="--device")
    found = []
    for path, experiment in experiments:
        jobs = tuple(
            job.model_copy(
                update={"training": job.training.model_copy(update={"device": device})}
                if job.training
                else {}
            )
            for job in experiment.jobs
        )
        moved = experiment.model_copy(update={"jobs": jobs})
        swept = (job for cell in distinct(moved) for job in cell.experiment.jobs)
        if any(job.training and job.training.device != device for job in swept):
            raise click.UsageError(
                f"{path}: found --device beside a sweep of devices, wanted one of them; remove the"
                " other"
            )
        found.append(moved)
    return found


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
