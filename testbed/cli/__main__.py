"""``python -m testbed.cli``: the same as ``ina-testbed``."""

import codecs
import io
import locale
import os
import sys

from testbed.cli import main
from testbed.discarded import discard


def start() -> None:
    """Run the verb of the command line. Files and output are UTF-8, whatever the locale is."""
    if codecs.lookup(locale.getpreferredencoding(False)).name != "utf-8":
        os.environ["PYTHONUTF8"] = "1"
        os.execv(sys.executable, [sys.executable, "-X", "utf8", "-m", "testbed.cli", *sys.argv[1:]])
    _open_closed()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # PYTHONIOENCODING may ask for less than UTF-8
            stream.reconfigure(errors="replace")
    # Figures only go to files. What a notebook sets for its own may not be installed here.
    os.environ["MPLBACKEND"] = "agg"
    try:
        main(prog_name="ina-testbed")
    finally:
        _drop_output()


def _open_closed() -> None:
    """Open the streams that were closed by the caller (``2>&-``) on the null device. Python has
    None for them, and the next file that is opened would have their number."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_RDWR)  # the lowest free number, so this one
            os.set_inheritable(null, True)
            setattr(sys, name, os.fdopen(null, "w" if number else "r"))


def _drop_output() -> None:
    """Drop what cannot be written, for example to a full disk: a verb has said so, and Python would
    print a traceback at its end."""
    for stream in filter(None, (sys.stdout, sys.stderr)):
        try:
            stream.flush()
        except OSError:
            discard(stream)


if __name__ == "__main__":
    start()
