"""``watch``: a run while it is being written."""

from __future__ import annotations

import time
from pathlib import Path

import click

from testbed.cli.arguments import DIRECTORY, Seconds
from testbed.cli.failures import reading


@click.command()
@click.argument("directory", metavar="DIR", type=DIRECTORY)
@click.option("--once", is_flag=True, help="print the state once, and end")
@click.option(
    "--interval",
    type=Seconds(0.1, 86_400),
    default=2.0,
    show_default=True,
    help="seconds between two looks",
)
def watch(directory: Path, once: bool, interval: float) -> None:
    """Show a run while it is being written: cells done, ranking so far, verdicts, time left.

    DIR is a run's directory, or one above it, of which the last run is shown. Ends with the run.
    The time left is the expected time of the remaining cells, times measured over expected time of
    those that have ended, above all of the same systems; a cell of which another repeat has ended
    should take as long as that.
    """
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    from testbed.results import Unreadable, last_run
    from testbed.studies.watching import lines, look

    def text() -> str:
        return "\n".join(lines(look(run), time.time()))

    with reading(Unreadable):
        run = last_run(directory)
        console = Console(highlight=False)
        if once or look(run).status != "runs" or not console.is_terminal:
            click.echo(text())
            return
        with Live(console=console, auto_refresh=False, vertical_overflow="visible") as live:
            while (watched := look(run)).status == "runs":
                live.update(Text("\n".join(lines(watched, time.time()))), refresh=True)
                time.sleep(interval)
            live.update(Text(text()), refresh=True)
