"""How the report shows a system: its colour, marker, title and sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Literal, TypeAlias

import pandas as pd

from testbed.report import names

Line: TypeAlias = Literal["-"] | tuple[float, Sequence[float]]

_STYLES: tuple[Line, ...] = ("-", (0, (4, 1.5)), (0, (4, 1, 1, 1)), (0, (2, 1)))
_FLAT: Line = (0, (1, 1))


@dataclass(frozen=True)
class SystemStyle:
    """Title, colour and marker in every figure; citation, published rules and our reading.

    Attributes:
        line: matplotlib's style of its line; dotted if it does not aggregate.
        baseline: its place among the baselines, which come first; 0 for all others.
        reference: whether speed-ups are given over it.
        aggregates: whether switches may sum for it; if not, the place of INA does not matter.
        waits: whether every worker waits for all others' gradients in each iteration.
    """

    title: str
    colour: str = "#999999"
    marker: str = "x"
    citation: str = ""
    published: tuple[str, ...] = ()
    reading: tuple[str, ...] = ()
    line: Line = "-"
    baseline: int = 0
    reference: bool = False
    aggregates: bool = True
    waits: bool = True


Styles = Mapping[str, SystemStyle]
Series = tuple[str, str]
"""A system and its variant, which is empty if there is only one."""
Titles = Mapping[Series, str]


def series_of(rows: pd.DataFrame) -> list[Series]:
    """The systems of ``rows``, with their variants."""
    return list(dict.fromkeys(zip(rows["system"], rows["variant"], strict=True)))


def style_of(system: str, styles: Styles) -> SystemStyle:
    """The style of ``system``; a neutral one if it is not registered here."""
    return styles.get(system, SystemStyle(system))


def ordered(systems: Sequence[str], styles: Styles) -> list[str]:
    """The systems in order: baselines, then those that aggregate in the network, then the
    others."""

    def place(name: str) -> tuple[float, bool, str]:
        style = style_of(name, styles)
        return style.baseline or inf, not style.aggregates, name

    return sorted(dict.fromkeys(systems), key=place)


def references(styles: Styles) -> list[str]:
    """The systems over which speed-ups are given. Differences are claimed relative to the last
    one."""
    return [name for name in ordered([*styles], styles) if styles[name].reference]


def series_styles(found: Sequence[Series], styles: Styles) -> dict[Series, SystemStyle]:
    """A style for each series, in the order of figures, defaults first. Variants are paler and have
    broken lines."""
    result = {}
    for system in ordered([system for system, _ in found], styles):
        style = style_of(system, styles)
        own = {variant for name, variant in found if name == system}
        variants = sorted(own, key=lambda variant: (bool(names.variant("", variant)), variant))
        for place, variant in enumerate(variants):
            result[system, variant] = replace(
                style,
                title=names.variant(style.title, variant),
                colour=_paler(style.colour, place / (place + 2)),
                line=_STYLES[place % len(_STYLES)] if style.aggregates else _FLAT,
            )
    return result


def _paler(colour: str, share: float) -> str:
    """``#rrggbb`` mixed with white."""
    parts = [int(colour[at : at + 2], 16) for at in (1, 3, 5)]
    return "#" + "".join(f"{round(part + (255 - part) * share):02x}" for part in parts)
