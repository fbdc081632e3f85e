"""The program ``ina-testbed``, also as ``python -m testbed``."""

from __future__ import annotations

import signal


def start() -> None:
    """Run the verb of the command line. Ctrl-C before it begins or after its end gives no
    traceback."""
    is_usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_usual:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from testbed.cli.__main__ import start as verbs

    if is_usual:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        verbs()
    finally:
        if is_usual:
            signal.signal(signal.SIGINT, signal.SIG_DFL)


if __name__ == "__main__":
    start()
