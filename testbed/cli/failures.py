"""What may go wrong while a verb works, as a message and an exit code.

A user's mistake is a `click.UsageError` and exits with 2, what cannot be done here with 1.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click


@contextmanager
def running() -> Iterator[None]:
    """For verbs that run cells: what cannot be run or written, and interruptions."""
    from testbed.backends.emulation.network import EmulationError
    from testbed.campaign.isolation import Terminated, termination_unwinds
    from testbed.deployment.errors import DeploymentError
    from testbed.results import Unreadable

    try:
        with termination_unwinds():
            yield
    except (DeploymentError, EmulationError) as error:
        raise click.ClickException(str(error)) from error
    except Unreadable as error:
        raise click.UsageError(str(error)) from error
    except OSError as error:
        raise click.ClickException(_file(error)) from error
    except (KeyboardInterrupt, Terminated):
        click.echo(
            "interrupted; finished rows are kept, and run --resume continues the run", err=True
        )
        sys.exit(130)


@contextmanager
def reading(*mistakes: type[Exception]) -> Iterator[None]:
    """For verbs that read what a user names: ``mistakes`` and files that cannot be used."""
    try:
        yield
    except mistakes as error:
        raise click.UsageError(str(error)) from error
    except OSError as error:
        raise click.UsageError(_file(error)) from error


def _file(error: OSError) -> str:
    if error.filename is None:
        return str(error)
    return f"{error.filename}: {(error.strerror or str(error)).lower()}"
