"""Waits for what must happen, however slow the machine is."""

from __future__ import annotations

import time
from collections.abc import Callable
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


def assert_none(left: Callable[[], object]) -> None:
    """Wait until nothing is ``left``. After ``PATIENCE_S``, raises AssertionError with what is
    left."""
    deadline = time.monotonic() + PATIENCE_S
    while found := left():
        assert time.monotonic() < deadline, found
        time.sleep(0.02)
