"""``new``: files to begin with."""

from __future__ import annotations

from pathlib import Path

import click

from testbed.cli.failures import reading


@click.command()
@click.argument("kind", type=click.Choice(["experiment", "system", "protocol", "workload"]))
@click.argument("name")
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(),
    help="the folder to write into; the current one if not given",
)
def new(kind: str, name: str, output: Path) -> None:
    """Write a commented experiment, system, protocol or workload that runs as it is.

    Each comes with an experiment that validates and runs without root. Systems and protocols are
    written below extensions/. The testbed finds them there when it is called from the folder above,
    or if INA_TESTBED_EXTENSIONS names the folder. Existing files are never changed.
    """
    from testbed import extensions, skeletons

    with reading(skeletons.Refused):
        paths = skeletons.write(kind, name, output)
    for path in paths:
        click.echo(f"wrote {path}")
    if kind in ("system", "protocol") and not skeletons.are_found(output):
        click.echo(f"add {(output / extensions.FOLDER).absolute()} to {extensions.VARIABLE}")
    place = f"cd {output} && " if output != Path() else ""
    click.echo(f"next: {place}ina-testbed run {paths[-1].name}")
