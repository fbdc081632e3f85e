"""The text of a plan's faults, of which there may be many."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice


def listed(faults: Iterable[str], most: int) -> str:
    """The first ``most`` faults, and how many more there are; empty if there are none."""
    found = iter(faults)
    named = [*islice(found, most)]
    more = sum(1 for _ in found)
    return "; ".join([*named, *([f"and {more} more"] if more else [])])
