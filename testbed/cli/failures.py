"""Errors of a verb as messages and exit codes.

A user's mistake is a `click.UsageError` and exits with 2; other failures exit with 1.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import NoReturn

import click

from testbed import extensions

_NOT_A_PLACE = (
    errno.EACCES, errno.EEXIST, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.ENOTDIR,
    errno.EPERM, errno.EROFS,
)  # fmt: skip
"""Errors that mean that the place given by the user is not writable."""
_FULL = (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def blaming_users_code() -> Iterator[None]:
    """A context that says where a user's own system or protocol raised an error, of any type."""
    try:
        yield
    except (Exception, SystemExit) as error:
        if extensions.place_of(error) is None:
            raise
        from testbed.deployment import users_code  # slow to import, and rarely needed

        raise click.UsageError(str(users_code.fault(error))) from error


@contextmanager
def running(kept: Callable[[], str] = str) -> Iterator[None]:
    """A context for verbs that run cells, which handles errors of running and writing, and
    interruptions.

    ``kept`` says what an interruption or a full disk leaves, and how to go on from there.
    """
    from testbed.backends.emulation.network import EmulationError
    from testbed.backends.recording import Unrecordable
    from testbed.campaign.isolation import Terminated
    from testbed.campaign.planning import NoCell
    from testbed.compiler import BuildError
    from testbed.deployment.errors import DeploymentError
    from testbed.run_tables import Unreadable

    try:
        with blaming_users_code():
            _need_a_cache()
            yield
    except (NoCell, Unrecordable, Unreadable) as error:
        raise click.UsageError(str(error)) from error
    except (BuildError, DeploymentError, EmulationError) as error:
        raise click.ClickException(str(error)) from error
    except BrokenPipeError:  # of the output; click ends quietly
        raise
    except OSError as error:
        wrong = click.UsageError if error.errno in _NOT_A_PLACE else click.ClickException
        raise wrong(failed_file(error, kept())) from error
    except (KeyboardInterrupt, Terminated) as error:
        interrupted(kept(), extensions.place_of(error))


def _need_a_cache() -> None:
    """Make the folder of compiled programs, without which no cell runs."""
    from testbed.compiler import cache

    kept = f"compiled programs are kept in {cache()}: set HOME or XDG_CACHE_HOME to a folder"
    try:
        cache().mkdir(parents=True, exist_ok=True)
        is_noexec = os.statvfs(cache()).f_flag & os.ST_NOEXEC
    except OSError as error:
        if error.errno in _FULL:
            raise
        raise click.UsageError(f"{failed_file(error)}; {kept} that you can write to") from error
    if is_noexec:
        raise click.UsageError(f"{kept} on a disk that is not mounted noexec")


def interrupted(kept: str = "", place: str | None = None) -> NoReturn:
    """Say so, with the ``place`` in a user's file that does not end, and exit as a shell's commands
    do after Ctrl-C."""
    said = f"interrupted in {place}" if place else "interrupted"
    click.echo(f"{said}; {kept}" if kept else said, err=True)
    sys.exit(130)


@contextmanager
def reading(*mistakes: type[Exception]) -> Iterator[None]:
    """A context for verbs that read a user's files, which handles ``mistakes``, and files that
    cannot be used."""
    try:
        with blaming_users_code():
            yield
    except mistakes as error:
        raise click.UsageError(str(error)) from error
    except RecursionError as error:
        raise click.UsageError("a file holds JSON that is nested too deep") from error
    except BrokenPipeError:  # of the output; click ends quietly
        raise
    except OSError as error:
        wrong = click.ClickException if error.errno in _FULL else click.UsageError
        raise wrong(failed_file(error)) from error


@contextmanager
def writing(output: Path | None) -> Iterator[None]:
    """A context for verbs that write beside what they read unless ``output`` is given: if that
    place is not writable, the error names the option."""
    try:
        yield
    except OSError as error:
        if output is not None or error.errno not in _NOT_A_PLACE:
            raise
        message = f"{failed_file(error)}; -o DIRECTORY writes elsewhere"
        raise click.UsageError(message) from error


def register() -> str:
    """Register the systems for a verb that can read results without users' own: if a file of theirs
    is wrong, warn, and leave all of theirs out. Returns where those were searched for."""
    searched = extensions.searched("systems")
    try:
        import_module("testbed.systems")
    except extensions.Broken as error:
        click.echo(f"warning: {error}; your own systems and protocols are left out", err=True)
        os.environ[extensions.VARIABLE] = ""
    return searched


def failed_file(error: OSError, kept: str = "") -> str:
    """A message that names the file that could not be used, and why; if the disk is full, also
    what is ``kept``."""
    if error.errno is None:  # one of ours, a sentence
        return str(error)
    said = (error.strerror or str(error)).lower()
    if error.filename is not None:
        said = f"{error.filename}: {said}"
    elif error.errno not in _FULL:
        return f"a file, or the current folder, cannot be used: {said}"
    if error.errno in _FULL:
        return f"{said}; free some space" + (f": {kept}" if kept else "")
    return said
