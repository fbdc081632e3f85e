"""Waits for what must happen, however slow the machine is."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")

PATIENCE_S = 60.0
"""The limit for what never happens. Machines on which tests run have stopped for seconds."""


def awaited(condition: Callable[[], T]) -> T:
    """The first true value of ``condition``. Raises AssertionError if there is none for
    ``PATIENCE_S``."""
    deadline = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)
    return found


@contextmanager
def limited(process: subprocess.Popen[str]) -> Iterator[None]:
    """A context that waits for ``process`` in some way. It is killed if this takes more than
    ``PATIENCE_S``, or raises."""
    late = threading.Event()

    def end() -> None:
        late.set()
        process.kill()

    timer = threading.Timer(PATIENCE_S, end)
    timer.start()
    try:
        yield
    except BaseException:
        process.kill()
        raise
    finally:
        timer.cancel()
    assert not late.is_set(), "waited in vain"


def assert_none(left: Callable[[], object]) -> None:
    """Wait until nothing is ``left``. After ``PATIENCE_S``, raises AssertionError with what is
    left."""
    deadline = time.monotonic() + PATIENCE_S
    while found := left():
        assert time.monotonic() < deadline, found
        time.sleep(0.02)
