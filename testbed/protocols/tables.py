"""Table entries of a P4 program as plain data. Values are integers; names are the program's."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Exact:
    value: int


@dataclass(frozen=True)
class Lpm:
    """Matches where the first ``prefix`` bits of the key are those of ``value``."""

    value: int
    prefix: int


@dataclass(frozen=True)
class Ternary:
    """Matches where ``key & mask == value & mask``."""

    value: int
    mask: int


@dataclass(frozen=True)
class Range:
    """Matches where ``low <= key <= high``."""

    low: int
    high: int


Match = Exact | Lpm | Ternary | Range


@dataclass(frozen=True)
class TableEntry:
    """One entry. ``match`` has a part per key of the table, in the program's order.

    ``priority`` counts only in tables with a ternary or range key. As in BMv2's runtime the lower
    number wins, and among equals the entry that was inserted first.
    """

    table: str
    match: tuple[Match, ...]
    action: str
    params: tuple[int, ...] = ()
    priority: int = 0
