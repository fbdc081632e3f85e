"""When the cells of a run began and ended, and how much longer the others will take."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from testbed.results import CELLS, CellEvent

SESSION, PLANNED, STARTED, FINISHED = "session", "planned", "started", "finished"

Key = tuple[str, int]
"""A cell's id and its repeat."""


@dataclass
class _Kind:
    """The repeats of one cell: how many wait, how long each should take, how long some took."""

    waiting: int = 0
    expected_s: float = 0.0
    took_s: float = 0.0
    ended: int = 0


class Journal:
    """The cells of a run's last session: those of `run`, or of its last `--resume`.

    A cell should take as long as its other repeats did. If none has ended, it should take its
    expected time, times the ratio of measured to expected time of all cells that have ended.
    Cells that run side by side share the time: it is divided by the mean number that ran at once.
    """

    def __init__(self, events: Iterable[CellEvent] = ()) -> None:
        self._forget()
        for event in events:
            self.record(event)

    def _forget(self) -> None:
        self.began_at: float | None = None
        self.titles: dict[Key, str] = {}
        self.running: dict[Key, float] = {}
        self._kinds: dict[str, _Kind] = {}
        self._known_s = self._unknown_s = 0.0
        self._took_s = self._ended_expected_s = 0.0
        self.ended = 0

    @property
    def left(self) -> int:
        """How many cells have not ended, running ones included."""
        return len(self.titles) - self.ended

    def record(self, event: CellEvent) -> None:
        """Take note of an event; a new session forgets the one before."""
        if event.event == SESSION:
            self._forget()
            self.began_at = event.at
            return
        key, kind = (event.cell, event.repeat), self._kinds.setdefault(event.cell, _Kind())
        self._count(kind, -1)
        if event.event == PLANNED:
            self.titles[key] = event.title
            kind.waiting += 1
            kind.expected_s = event.expected_s
        elif event.event == STARTED and key in self.titles and key not in self.running:
            self.running[key] = event.at
            kind.waiting -= 1
        elif event.event == FINISHED and key in self.running:
            took = event.at - self.running.pop(key)
            kind.took_s += took
            kind.ended += 1
            self._took_s += took
            self._ended_expected_s += kind.expected_s
            self.ended += 1
        self._count(kind, 1)

    def _count(self, kind: _Kind, sign: int) -> None:
        """Add the cells of a kind that wait to the sums, or take them out."""
        if kind.ended:
            self._known_s += sign * kind.waiting * kind.took_s / kind.ended
        else:
            self._unknown_s += sign * kind.waiting * kind.expected_s

    def left_s(self, now: float) -> float:
        """The seconds from ``now`` (of the epoch) until all cells should have ended."""
        ratio = self._took_s / self._ended_expected_s if self._ended_expected_s else 1.0
        rest, longest = self._known_s + self._unknown_s * ratio, 0.0
        for (cell, _), since in self.running.items():
            kind = self._kinds[cell]
            whole = kind.took_s / kind.ended if kind.ended else kind.expected_s * ratio
            own = max(0.0, whole - (now - since))
            rest, longest = rest + own, max(longest, own)
        return max(rest / self._at_once(now), longest)

    def _at_once(self, now: float) -> float:
        """How many cells ran at once, on average."""
        if not self.ended or self.began_at is None or now <= self.began_at:
            return max(1.0, len(self.running))
        worked = self._took_s + sum(now - since for since in self.running.values())
        return max(worked / (now - self.began_at), 1e-9)


def read(run: Path) -> Journal:
    """The journal of a run's directory; empty if an older version wrote it."""
    try:
        with (run / CELLS).open(newline="") as file:
            return Journal(event for row in csv.DictReader(file) if (event := _event(row)))
    except FileNotFoundError:
        return Journal()


def _event(row: dict[str, str | None]) -> CellEvent | None:
    """A line of the table; None if it is not whole, because it is just being written."""
    try:
        return CellEvent(
            at=float(row["at"] or ""),
            event=row["event"] or "",
            cell=row["cell"] or "",
            repeat=int(row["repeat"] or ""),
            expected_s=float(row["expected_s"] or ""),
            title=row["title"] or "",
        )
    except (KeyError, ValueError):
        return None
