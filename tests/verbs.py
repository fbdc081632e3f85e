"""Calls of the command line in this process."""

from __future__ import annotations

from click.testing import CliRunner, Result

from testbed.cli import main


def invoke(*arguments: object) -> Result:
    """``ina-testbed`` with ``arguments``; its exit code and what it printed."""
    return CliRunner().invoke(main, [*map(str, arguments)])
