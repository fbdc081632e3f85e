"""``setup``, ``doctor``, ``calibrate``, ``clean``: this machine, and leftovers of runs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from testbed.cli.failures import running

if TYPE_CHECKING:
    from testbed.machine.doctor import Check


@click.command()
@click.option(
    "--install", is_flag=True, help="as root: install with apt what Debian and Ubuntu package"
)
@click.option("--packages-only", is_flag=True, help="do not check the kernel")
def setup(install: bool, packages_only: bool) -> None:
    """Say what this machine lacks for emulation; --install installs it.

    Exits with 1 while something necessary is missing. BMv2 and p4c are optional; p4lang's package
    source has them. `doctor` also says what limits this machine, and what that costs.

    Root: needed with --install, and to try the kernel's features.
    """
    from testbed.machine import doctor, installing

    if install:
        try:
            for line in installing.install(doctor.packaged()):
                click.echo(line)
        except installing.NotInstalled as error:
            raise click.ClickException(str(error)) from error
    checks = [*doctor.packaged(), *(() if packages_only else doctor.kernel())]
    lacking = [check for check in checks if check.status != "ok"]
    missing = _told(lacking)
    packages = installing.packages(lacking)
    if packages and not install:
        click.echo(f"as root, ina-testbed setup --install installs {' '.join(packages)}")
    if not missing:
        click.echo("nothing necessary is missing")
    sys.exit(1 if missing else 0)


@click.command()
def doctor() -> None:
    """Say what this machine has, lacks and limits, and how to fix it.

    Exits with 1 if something necessary for emulation is missing; simulation and packets in virtual
    time need only a C compiler.

    Root: needed to try the kernel's features; everything else is checked without it.
    """
    from testbed.machine import calibration
    from testbed.machine.doctor import checks

    sys.exit(1 if _told([*checks(), calibration.check()]) else 0)


def _told(checks: Sequence[Check]) -> int:
    """Print the checks; return how many of them found something missing."""
    for check in checks:
        click.echo(f"{check.status:8} {check.name:14} {check.detail}")
        if check.fix:
            click.echo(f"{'':24}{check.fix}")
    return sum(check.status == "missing" for check in checks)


@click.command()
@click.option("--force", is_flag=True, help="measure even while the machine is busy")
def calibrate(force: bool) -> None:
    """Measure this machine's capacity, for `dilation: auto` and for warnings.

    Root: needed.
    """
    from testbed.machine import calibration
    from testbed.machine.calibration_runs import calibrate as measure

    with running():
        measured = measure(lambda line: click.echo(line, err=True), force)
    click.echo("\n".join(calibration.describe(measured)))
    click.echo(f"stored in {calibration.store(measured)}")


@click.command()
def clean() -> None:
    """Remove what earlier runs of the testbed left behind, and nothing else.

    Root: needed to remove what runs as root left behind.
    """
    from testbed.backends.emulation.cleanup import clean as remove

    removed = remove()
    for line in removed:
        click.echo(f"removed {line}")
    if not removed:
        click.echo("nothing to remove")
