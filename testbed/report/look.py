"""How a system appears in figures, and what the report says of where its rules come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

Line: TypeAlias = Literal["-"] | tuple[float, Sequence[float]]

_BASELINES = ("ps", "ring", "hierarchical-ring")
_STYLES: tuple[Line, ...] = ("-", (0, (4, 1.5)), (0, (4, 1, 1, 1)), (0, (2, 1)))
_FLAT: Line = (0, (1, 1))


@dataclass(frozen=True)
class Look:
    """Title, colour and marker in every figure; citation, published rules and our reading.

    Attributes:
        line: matplotlib's style of its line; dotted if it does not aggregate.
        aggregates: whether switches may sum for it; if not, it is all one to it where INA is.
        waits: whether every worker waits for all others' gradients in each iteration.
    """

    title: str
    colour: str = "#999999"
    marker: str = "x"
    citation: str = ""
    published: tuple[str, ...] = ()
    reading: tuple[str, ...] = ()
    line: Line = "-"
    aggregates: bool = True
    waits: bool = True


Looks = Mapping[str, Look]
Series = tuple[str, str]
"""A system and which variant of it, empty where there is but one."""


def of(system: str, looks: Looks) -> Look:
    """The look of ``system``; a neutral one if it is not registered here."""
    return looks.get(system, Look(system))


def ordered(systems: Sequence[str], looks: Looks) -> list[str]:
    """Baselines first, then those that aggregate in the network, then the others."""

    def place(name: str) -> tuple[int, bool, str]:
        baseline = _BASELINES.index(name) if name in _BASELINES else len(_BASELINES)
        return baseline, not of(name, looks).aggregates, name

    return sorted(dict.fromkeys(systems), key=place)


def series_looks(found: Sequence[Series], looks: Looks) -> dict[Series, Look]:
    """A look for each series, in the order of figures: variants are paler, their lines broken."""
    result = {}
    for system in ordered([system for system, _ in found], looks):
        look = of(system, looks)
        variants = sorted({variant for own, variant in found if own == system})
        for place, variant in enumerate(variants):
            result[system, variant] = replace(
                look,
                title=f"{look.title}, {variant}" if variant else look.title,
                colour=_paler(look.colour, place / (place + 2)),
                line=_STYLES[place % len(_STYLES)] if look.aggregates else _FLAT,
            )
    return result


def _paler(colour: str, share: float) -> str:
    """``#rrggbb`` mixed with white."""
    parts = [int(colour[at : at + 2], 16) for at in (1, 3, 5)]
    return "#" + "".join(f"{round(part + (255 - part) * share):02x}" for part in parts)
