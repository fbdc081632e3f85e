"""``python -m testbed.cli``: the same as ``ina-testbed``."""

import codecs
import locale
import os
import sys

from testbed.cli import main


def start() -> None:
    """Run the verb of the command line. Files and output are UTF-8, whatever the locale is."""
    if codecs.lookup(locale.getpreferredencoding(False)).name != "utf-8":
        os.environ["PYTHONUTF8"] = "1"
        os.execv(sys.executable, [sys.executable, "-X", "utf8", "-m", "testbed.cli", *sys.argv[1:]])
    main(prog_name="ina-testbed")


if __name__ == "__main__":
    start()
