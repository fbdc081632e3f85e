"""``watch``: a run while it is being written."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from pathlib import Path

import click

from testbed.cli.arguments import DIRECTORY, Seconds
from testbed.cli.failures import reading, register


@click.command()
@click.argument("directory", metavar="DIR", type=DIRECTORY)
@click.option("--once", is_flag=True, help="print the state once and end")
@click.option(
    "--interval",
    type=Seconds(0.1, 86_400),
    default=2.0,
    show_default=True,
    help="seconds between updates",
)
def watch(directory: Path, once: bool, interval: float) -> None:
    """Show a run in progress: cells done, ranking so far, verdicts, time left.

    DIR is a run's directory, or a directory above it; then the last run is shown. Ends with the
    run. If another repeat of a cell has ended, the cell is expected to take as long. The time left
    for others is their expected time, multiplied by the ratio of measured to expected time of cells
    that have ended, mainly those of the same system.
    """
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    register()
    from testbed.run_tables import Unreadable, last_run
    from testbed.studies.watching import lines, look

    def text() -> str:
        return "\n".join(lines(look(run), time.time()))

    with reading(Unreadable):
        run = last_run(directory)
        console = Console(highlight=False, force_terminal=sys.stdout.isatty())
        if once or look(run).status != "runs" or not console.is_terminal:
            click.echo(text())
            return
        # Ctrl-C ends the watching; "interrupted" would read as if it were the run.
        with (
            suppress(KeyboardInterrupt),
            Live(console=console, auto_refresh=False, vertical_overflow="visible") as live,
        ):
            while (watched := look(run)).status == "runs":
                live.update(Text("\n".join(lines(watched, time.time()))), refresh=True)
                time.sleep(interval)
            live.update(Text(text()), refresh=True)
