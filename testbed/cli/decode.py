"""``decode``: packets as text."""

from __future__ import annotations

from pathlib import Path

import click

from testbed.cli.arguments import FILE
from testbed.cli.failures import reading


@click.command()
@click.argument("capture", type=FILE)
def decode(capture: Path) -> None:
    """Show the INA packets of a capture as text."""
    from testbed.switches.decode import NoCapture, lines

    with reading(NoCapture):
        for line in lines(capture):
            click.echo(line)
