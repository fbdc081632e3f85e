"""Joins results, which know no systems, with the systems' looks and sources."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from testbed.report import Look, build
from testbed.systems import registry


def report(directories: Sequence[Path], output: Path) -> Path:
    """Write the report over ``directories`` into ``output``; the path of its page."""
    looks = {
        name: Look(
            title=system.title,
            colour=system.colour,
            marker=system.marker,
            citation=system.citation,
            published=system.published,
            reading=system.reading,
        )
        for name, system in registry.items()
    }
    return build(directories, output, looks)
