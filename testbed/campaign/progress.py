"""Progress of an evaluation: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time

from rich.console import Console
from rich.markup import escape


class Progress:
    """Shows which cell runs, how many are left and how long they will take.

    The estimate starts from the closed form and is corrected by the ratio observed so far. There
    is no drawing thread, because cells are forked from this process.
    """

    def __init__(self, cells: int, expected_s: float, console: Console) -> None:
        self._console = console
        self._cells, self._expected_s = cells, expected_s
        self._began = time.monotonic()
        self._done, self._done_s = 0, 0.0
        self._started = 0

    def start(self, what: str) -> None:
        self._started += 1
        left = self._cells - self._done
        line = f"[{self._started}/{self._cells}] {what} — {left} left, {clock(self._left_s())}"
        if self._console.is_terminal:
            self._console.print(f"\r\x1b[K{escape(line)}", end="", highlight=False)
        else:
            self._console.print(escape(line), highlight=False, soft_wrap=True)

    def finish(self, what: str, expected_s: float) -> None:
        """``expected_s`` is the expected time of the finished cell."""
        self._done += 1
        self._done_s += expected_s
        start = "\r\x1b[K" if self._console.is_terminal else ""
        line = f"{start}[{self._done}/{self._cells}] {what}"
        self._console.print(escape(line), highlight=False, soft_wrap=True)

    def _left_s(self) -> float:
        left = self._expected_s - self._done_s
        if self._done == 0:
            return left
        return left * (time.monotonic() - self._began) / self._done_s


def clock(seconds: float) -> str:
    """``about 1 min 05 s``"""
    minutes, rest = divmod(round(seconds), 60)
    return f"about {minutes} min {rest:02d} s" if minutes else f"about {rest} s"
