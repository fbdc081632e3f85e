"""Progress of an evaluation: a live line on a terminal, plain lines elsewhere, and cells.csv."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.control import Control
from rich.segment import ControlType
from rich.text import Text

from testbed.campaign.journal import FINISHED, PLANNED, SESSION, STARTED, Journal
from testbed.campaign.planning import Planned, title
from testbed.campaign.standings import Standings
from testbed.discarded import discard
from testbed.report.runs import duration
from testbed.results import CellEvent, Row, RunDirectory, as_text

_MOST_NAMED = 4
_ERASE = Control(ControlType.CARRIAGE_RETURN, (ControlType.ERASE_IN_LINE, 2))
"""Empties the terminal's current line."""


class Progress:
    """Shows which cell runs, how many are left, how long they will take, and who leads.

    There is no drawing thread, because cells are forked from this process.
    """

    def __init__(
        self,
        planned: Sequence[Planned],
        directory: RunDirectory,
        standings: Standings,
        console: Console,
    ) -> None:
        self._console, self._directory, self._standings = console, directory, standings
        self._is_live = console.is_terminal and not console.is_dumb_terminal
        self._cells, self._started, self._finished = len(planned), 0, 0
        self._journal = Journal()
        self._note(
            [
                CellEvent(_now(), SESSION),
                *(self._event(PLANNED, each) for each in planned),
            ]
        )

    def start(self, planned: Planned) -> None:
        self._note([self._event(STARTED, planned)])
        self._started += 1
        left = f"{self._journal.left} left, about {duration(self._journal.left_s(time.time()))}"
        if self._standings.invalid or self._standings.failed:
            left += f", {self._standings.counts}"
        line = f"[{self._started}/{self._cells}] {title(planned.cell)} — {left}"
        if self._is_live:
            self._show(line, end="", no_wrap=True, overflow="ellipsis")
        else:
            self._show(line, soft_wrap=True)

    def finish(self, planned: Planned, said: str, rows: Sequence[Row]) -> None:
        """Show the outcome of a cell: ``said`` is it as text, ``rows`` are the cell's rows."""
        self._note([self._event(FINISHED, planned)])
        self._finished += 1
        records = [as_text(row) for row in rows]
        for record in records:
            self._standings.add(record)
        if self._console.quiet:
            return
        leaders = self._leaders(records[-1]) if records else ""
        line = f"[{self._finished}/{self._cells}] {title(planned.cell)}: {said}"
        self._show(line + leaders, soft_wrap=True)

    def _show(self, text: str, **how: Any) -> None:
        """Show a line in place of the live one. Nobody may be reading any more, or the disk may be
        full; the cells run all the same."""
        try:
            if self._is_live:
                self._console.control(_ERASE)
            self._console.print(Text(text), **how)
        except OSError:
            self._console.quiet = True
            discard(self._console.file)

    def _leaders(self, record: dict[str, str]) -> str:
        found = self._standings.of(record)
        if len(found) < 2:
            return ""
        more = ", ..." if len(found) > _MOST_NAMED else ""
        return f"; so far {', '.join(map(str, found[:_MOST_NAMED]))}{more}"

    def _event(self, event: str, planned: Planned) -> CellEvent:
        cell = planned.cell
        return CellEvent(_now(), event, cell.id, cell.repeat, planned.seconds, title(cell))

    def _note(self, events: Sequence[CellEvent]) -> None:
        for event in events:
            self._journal.record(event)
        self._directory.append_events(events)


def _now() -> float:
    return round(time.time(), 3)
