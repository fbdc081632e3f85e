"""The verbs of the command line. A verb's module is imported when the verb is called."""

from __future__ import annotations

import errno
from importlib import import_module

import click

from testbed import __version__, extensions
from testbed.campaign.isolation import Terminated, termination_unwinds
from testbed.cli.failures import blaming_users_code, failed_file, interrupted

_MODULES = {
    "new": "new",
    "run": "run",
    "train": "train",
    "validate": "validate",
    "watch": "watch",
    "report": "report",
    "explain": "explain",
    "compare": "comparison",
    "baseline": "comparison",
    "claims": "claims",
    "bench": "bench",
    "ladder": "ladder",
    "torture": "torture",
    "conform": "conform",
    "place": "place",
    "reference": "reference",
    "systems": "systems",
    "setup": "machine",
    "doctor": "machine",
    "calibrate": "machine",
    "clean": "machine",
    "decode": "decode",
    "series": "series",
    "trace": "trace",
    "schema": "schema",
}
"""The module of each verb, in the order of the help text."""


class _Verbs(click.Group):
    """Verbs whose modules are imported on first use."""

    def invoke(self, context: click.Context) -> object:
        try:
            # Any verb may have processes and temporary files when it is killed.
            with termination_unwinds(), blaming_users_code():
                return super().invoke(context)
        except (KeyboardInterrupt, Terminated) as error:
            interrupted(place=extensions.place_of(error))
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except extensions.Broken as error:
            raise click.UsageError(str(error)) from error
        except UnicodeEncodeError as error:
            if not any("\ud800" <= letter <= "\udfff" for letter in error.object):
                raise
            raise click.UsageError(
                f"found a name that is not UTF-8: {error.object[error.start : error.end]!a};"
                " rename the file or folder"
            ) from error
        except OSError as error:
            # A full disk or a missing folder is not an error of the testbed.
            if error.errno == errno.EPIPE:  # click ends quietly
                raise
            raise click.ClickException(failed_file(error)) from error
        except (Exception, SystemExit) as error:
            from testbed.deployment import users_code  # slow to import, and rarely needed

            if (said := _of_pathlib(error) or users_code.fault(error)) is None:
                raise
            raise click.UsageError(said) from error

    def list_commands(self, context: click.Context) -> list[str]:
        return list(_MODULES)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in _MODULES:
            return None
        module = import_module(f"testbed.cli.{_MODULES[name]}")
        command: click.Command = getattr(module, name)
        below = command.commands.values() if isinstance(command, click.Group) else ()
        for each in (command, *below):  # click would cut a summary at the end of the line
            each.short_help = (each.help or "").partition("\n\n")[0]
        return command


def _of_pathlib(error: BaseException) -> str | None:
    """What a user is told for an error that pathlib raises without a type of its own; or None."""
    if not isinstance(error, RuntimeError):
        return None
    if "Symlink loop" in str(error):
        return f"{error}; remove or correct the link"
    if "home directory" in str(error):
        return "this user has no home folder; set HOME to a folder that you can write to"
    return None


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="ina-testbed")
def main() -> None:
    """Compare systems for gradient synchronisation and in-network aggregation on one machine.

    Only emulation needs root (backend: emulate, and verbs that measure or clean up for it). Under
    "Root", a verb's help says when it needs root. Experiments with backend: packet or simulate
    need none.
    """
