"""``doctor``, ``calibrate`` and ``clean``: this machine, its capacity, and leftovers of runs."""

from __future__ import annotations

import sys

import click

from testbed.cli.failures import running


@click.command()
def doctor() -> None:
    """Say what this machine has, lacks and limits, and how to fix it."""
    from testbed.machine import calibration
    from testbed.machine.doctor import checks

    missing = 0
    for check in (*checks(), calibration.check()):
        click.echo(f"{check.status:8} {check.name:14} {check.detail}")
        if check.fix:
            click.echo(f"{'':24}{check.fix}")
        missing += check.status == "missing"
    sys.exit(1 if missing else 0)


@click.command()
@click.option("--force", is_flag=True, help="measure even while the machine is busy")
def calibrate(force: bool) -> None:
    """Measure this machine's capacity, for `dilation: auto` and for warnings."""
    from testbed.machine import calibration
    from testbed.machine.calibration_runs import calibrate as measure

    with running():
        measured = measure(lambda line: click.echo(line, err=True), force)
    click.echo("\n".join(calibration.describe(measured)))
    click.echo(f"stored in {calibration.store(measured)}")


@click.command()
def clean() -> None:
    """Remove what earlier runs of the testbed left behind, and nothing else."""
    from testbed.backends.emulation.cleanup import clean as remove

    removed = remove()
    for line in removed:
        click.echo(f"removed {line}")
    if not removed:
        click.echo("nothing to remove")
