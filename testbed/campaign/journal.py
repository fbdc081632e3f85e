"""When the cells of a run began and ended, and how much longer the others will take."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from testbed.results import CELLS, CellEvent
from testbed.run_tables import MOST, read_text

SESSION, PLANNED, STARTED, FINISHED = "session", "planned", "started", "finished"

Key = tuple[str, int]
"""A cell's id and its repeat."""


_MOST_LAID_OUT = 500
"""With more waiting cells than this, the sum of their times is divided by how many run at once."""
_DOUBT = 0.5
"""The ratio of all families counts as much as this many ended cells of a family."""


@dataclass
class _Family:
    """The cells of the same systems on the same back end, whose expected times are wrong by similar
    factors.

    Attributes:
        waiting_s: the expected time of waiting cells of which no repeat has ended.
        took_s, expected_s: the measured and the expected time of the ``ended`` cells.
    """

    waiting_s: float = 0.0
    took_s: float = 0.0
    expected_s: float = 0.0
    ended: int = 0

    def ratio(self, of_all: float) -> float:
        """Measured over expected time; close to the ratio ``of_all`` while few cells have ended."""
        own = self.took_s / self.expected_s if self.expected_s else of_all
        return (self.ended * own + _DOUBT * of_all) / (self.ended + _DOUBT)


@dataclass
class _Kind:
    """The repeats of one cell: how many wait, how long each should take, and how long the ``ended``
    ones took."""

    family: _Family
    waiting: int = 0
    expected_s: float = 0.0
    took_s: float = 0.0
    ended: int = 0


class Journal:
    """The cells of a run's last session, which is `run` or the last `--resume`.

    A cell should take as long as its other repeats did. If none has ended, it should take its
    expected time, multiplied by the ratio of measured to expected time of the cells that have
    ended, mainly of those with the same systems and back end. As many cells are assumed to run side
    by side as did on average.
    """

    def __init__(self, events: Iterable[CellEvent] = ()) -> None:
        self._forget()
        for event in events:
            self.record(event)

    def _forget(self) -> None:
        self.began_at: float | None = None
        self.titles: dict[Key, str] = {}
        self.running: dict[Key, float] = {}
        self._waiting: dict[Key, None] = {}
        self._kinds: dict[str, _Kind] = {}
        self._families: dict[tuple[str, ...], _Family] = {}
        self._known_s = 0.0
        self._all = _Family()
        self.ended = 0

    @property
    def left(self) -> int:
        """How many cells have not ended, running ones included."""
        return len(self.titles) - self.ended

    def record(self, event: CellEvent) -> None:
        """Take note of an event. A new session forgets the previous one."""
        if event.event == SESSION:
            self._forget()
            self.began_at = event.at
            return
        key, kind = (event.cell, event.repeat), self._kinds.get(event.cell)
        if kind is None:
            family = self._families.setdefault(_family(event.title), _Family())
            kind = self._kinds[event.cell] = _Kind(family)
        self._count(kind, -1)
        if event.event == PLANNED:
            self.titles[key] = event.title
            self._waiting[key] = None
            kind.waiting += 1
            kind.expected_s = event.expected_s
        elif event.event == STARTED and key in self.titles and key not in self.running:
            self.running[key] = event.at
            self._waiting.pop(key, None)
            kind.waiting -= 1
        elif event.event == FINISHED and key in self.running:
            took = event.at - self.running.pop(key)
            kind.took_s += took
            kind.ended += 1
            for each in (self._all, kind.family):
                each.took_s += took
                each.expected_s += kind.expected_s
                each.ended += 1
            self.ended += 1
        self._count(kind, 1)

    def _count(self, kind: _Kind, sign: int) -> None:
        """Add the waiting cells of a kind to the sums (``sign`` 1), or subtract them (-1)."""
        if kind.ended:
            self._known_s += sign * kind.waiting * kind.took_s / kind.ended
        else:
            kind.family.waiting_s += sign * kind.waiting * kind.expected_s

    def left_s(self, now: float) -> float:
        """The seconds from ``now`` (of the epoch) until all cells should have ended."""
        of_all = self._all.took_s / self._all.expected_s if self._all.expected_s else 1.0
        running = [
            max(0.0, self._whole_s(cell, of_all) - (now - since))
            for (cell, _), since in self.running.items()
        ]
        at_once = self._at_once(now)
        if len(self._waiting) <= _MOST_LAID_OUT:
            waiting = [self._whole_s(cell, of_all) for cell, _ in self._waiting]
            return _laid_out(running, waiting, at_once)
        unknown = (each.waiting_s * each.ratio(of_all) for each in self._families.values())
        rest = sum(running) + self._known_s + sum(unknown)
        return max(rest / at_once, *running, 0.0)

    def _whole_s(self, cell: str, of_all: float) -> float:
        """The seconds that a cell should take."""
        kind = self._kinds[cell]
        if kind.ended:
            return kind.took_s / kind.ended
        return kind.expected_s * kind.family.ratio(of_all)

    def _at_once(self, now: float) -> float:
        """How many cells ran at once, on average."""
        if not self.ended or self.began_at is None or now <= self.began_at:
            return max(1.0, len(self.running))
        worked = self._all.took_s + sum(now - since for since in self.running.values())
        return max(worked / (now - self.began_at), 1e-9)


def _laid_out(running: list[float], waiting: list[float], at_once: float) -> float:
    """When the last cell ends if each waiting one begins as soon as there is room for it."""
    lanes = max(1, math.ceil(round(at_once, 1)))
    slower = max(1.0, lanes / at_once)
    ends = sorted(running)[-lanes:]  # more may be running than do on average
    ends = [0.0] * (lanes - len(ends)) + ends
    heapq.heapify(ends)
    for each in waiting:
        heapq.heapreplace(ends, ends[0] + each * slower)
    return max(ends)


def _family(title: str) -> tuple[str, ...]:
    """The systems and the back end in a cell's title, which `planning.title` makes."""
    words = title.split()
    before = ["+", *words]
    return tuple(
        word
        for word, last in zip(words, before, strict=False)
        if last == "+" or word.startswith("backend=")
    )


def read(run: Path) -> Journal:
    """The journal of a run's directory; empty if an older version wrote it. Raises Unreadable."""
    try:
        return Journal(filter(None, map(_event, read_text(run / CELLS))))
    except FileNotFoundError:
        return Journal()


def _event(row: dict[str, str]) -> CellEvent | None:
    """The event in a line of the table; None if it is not as `run` writes it."""
    try:
        return CellEvent(
            at=_seconds(row["at"]),
            event=row["event"],
            cell=row["cell"],
            repeat=int(row["repeat"]),
            expected_s=_seconds(row["expected_s"]),
            title=row["title"],
        )
    except (KeyError, ValueError):
        return None


def _seconds(text: str) -> float:
    if not abs(seconds := float(text)) < MOST:
        raise ValueError
    return seconds
