"""How a system appears in figures, and what the report says of where its rules come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Look:
    """Title, colour and marker in every figure; citation, published rules and our reading."""

    title: str
    colour: str = "#999999"
    marker: str = "x"
    citation: str = ""
    published: tuple[str, ...] = ()
    reading: tuple[str, ...] = ()


def of(system: str, looks: Mapping[str, Look]) -> Look:
    """The look of ``system``; a neutral one if it is not registered here."""
    return looks.get(system, Look(system))
