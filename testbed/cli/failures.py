"""Errors of a verb as messages and exit codes.

A user's mistake is a `click.UsageError` and exits with 2; other failures exit with 1.
"""

from __future__ import annotations

import errno
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

_NOT_A_PLACE = (
    errno.EACCES, errno.EEXIST, errno.EISDIR, errno.ENAMETOOLONG, errno.ENOTDIR, errno.EPERM,
    errno.EROFS,
)  # fmt: skip
"""Nothing can be written where the user said."""


@contextmanager
def running() -> Iterator[None]:
    """For verbs that run cells: errors of running and writing, and interruptions."""
    from testbed.backends.emulation.network import EmulationError
    from testbed.backends.recording import Unrecordable
    from testbed.campaign.isolation import Terminated, termination_unwinds
    from testbed.campaign.planning import NoCell
    from testbed.deployment.errors import DeploymentError
    from testbed.results import Unreadable

    try:
        with termination_unwinds():
            yield
    except (NoCell, Unrecordable, Unreadable) as error:
        raise click.UsageError(str(error)) from error
    except (DeploymentError, EmulationError) as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        wrong = click.UsageError if error.errno in _NOT_A_PLACE else click.ClickException
        raise wrong(failed_file(error)) from error
    except (KeyboardInterrupt, Terminated):
        click.echo("interrupted; finished rows are kept; run --resume continues the run", err=True)
        sys.exit(130)


@contextmanager
def reading(*mistakes: type[Exception]) -> Iterator[None]:
    """For verbs that read a user's files: ``mistakes``, and files that cannot be used."""
    try:
        yield
    except mistakes as error:
        raise click.UsageError(str(error)) from error
    except RecursionError as error:
        raise click.UsageError("a file holds JSON that is nested too deep") from error
    except BrokenPipeError:  # of the output; click ends quietly
        raise
    except OSError as error:
        raise click.UsageError(failed_file(error)) from error


def failed_file(error: OSError) -> str:
    """The file that could not be used, and why."""
    if error.errno is None:  # one of ours, a sentence
        return str(error)
    if error.filename is None:
        return f"a file, or the current folder, cannot be used: {error.strerror or error}".lower()
    said = f"{error.filename}: {(error.strerror or str(error)).lower()}"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"{said}; free some space: finished rows are kept, and run --resume continues a run"
    return said
