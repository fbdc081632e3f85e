"""Output that cannot be written, and that nobody misses."""

from __future__ import annotations

import os
from typing import IO


def discard(stream: IO[str]) -> None:
    """Drop what ``stream`` still holds and all that is written to it from now on: it failed once,
    for example on a full disk, and would fail again whenever Python flushes it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
