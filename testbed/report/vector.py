"""Figures as SVG: as a whole, and each panel on its own, so that a page can lay panels out.

Text stays text. Colours are CSS variables, which have another value on dark pages. What a figure
notes about its parts (`canvas.note`) becomes tooltips and attributes. The same figure always gives
the same bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from colorsys import hls_to_rgb, rgb_to_hls
from copy import deepcopy
from dataclasses import dataclass
from io import StringIO
from typing import Any
from xml.etree import ElementTree

import matplotlib
from matplotlib.figure import Figure

_SVG = "http://www.w3.org/2000/svg"
_LINK = "{http://www.w3.org/1999/xlink}href"
_COLOUR = re.compile(r"#[0-9a-f]{6}\b")
_LONG = re.compile(r"-?\d+\.\d{3,}")
_REFERENCE = re.compile(r"url\(#([^)]+)\)")
_FONT = re.compile(r"font-family:[^;]*;?\s*|(?<=px )'[^;]*|(?<=px )[A-Za-z][^;]*")
_FIXED = {"#000000": "currentColor", "#ffffff": "var(--back)"}
_MOST_WORDS = 24
"""The most marks that the text alternative of a panel lists."""
BACK, INK = ("#ffffff", "#141a21"), ("#1c2733", "#e3e9ef")
"""The colours of a page and of its text: light, dark."""

ElementTree.register_namespace("", _SVG)


@dataclass(frozen=True)
class Panel:
    """One axes of a figure.

    Attributes:
        title: its title in the figure.
        facets: what all its values have in common, such as the workload, for a page's filters.
        svg: an SVG element, for a page that defines the variables of ``colours``.
    """

    title: str
    facets: Mapping[str, str]
    svg: str


@dataclass(frozen=True)
class Vector:
    """A figure: a complete SVG file, its panels, the symbols and labels of its legend, and the
    colours that they use (``#rrggbb``)."""

    whole: str
    panels: tuple[Panel, ...]
    legend: tuple[tuple[str, str], ...]
    colours: frozenset[str]


def vector(figure: Figure, name: str, alternative: str) -> Vector:
    """The SVG of ``figure``; ``name`` makes its ids differ from those of other figures on a page.

    ``alternative`` says in words what the figure shows.
    """
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        buffer = StringIO()
        figure.savefig(buffer, format="svg", transparent=True, metadata=_NO_METADATA)
    root = ElementTree.fromstring(buffer.getvalue())
    colours: set[str] = set()
    shapes = _cleaned(root, colours)
    notes = {element: note for element in root.iter() if (note := _note(element)) is not None}
    for element, note in notes.items():
        _explained(element, note)
    height = float(root.get("viewBox", "0 0 0 0").split()[3])
    panels = tuple(
        _panel(element, note, shapes, f"{name}-{number}", height)
        for number, (element, note) in enumerate(
            (each, note) for each, note in notes.items() if note["is"] == "panel"
        )
    )
    (about,) = (each for each in notes.values() if each["is"] == "figure")
    legend = tuple((_swatch(entry, colours), entry["label"]) for entry in about["legend"])
    defined = ElementTree.Element(f"{{{_SVG}}}defs")
    defined.extend(_used(root, shapes))
    root.insert(0, defined)
    style = ElementTree.Element(f"{{{_SVG}}}style")
    style.text = (
        f"{variables(colours)} svg {{ background: var(--back); color: var(--ink); }} {TEXT}"
    )
    root.insert(0, style)
    root.set("role", "img")
    root.set("aria-label", alternative)
    return Vector(_text(root) + "\n", panels, legend, frozenset(colours))


def variables(colours: set[str] | frozenset[str]) -> str:
    """CSS that gives each colour its variable, for light pages and for dark ones."""
    own = {f"--c{each[1:]}": (each, on_dark(each)) for each in sorted(colours)}
    every = {"--back": BACK, "--ink": INK, **own}
    light, dark = (
        " ".join(f"{name}: {values[side]};" for name, values in every.items()) for side in (0, 1)
    )
    return f":root {{ {light} }} @media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}"


TEXT = (
    "svg text { fill: currentColor; font-family: system-ui, 'Helvetica Neue', Arial, sans-serif; }"
)
"""CSS of the text in figures. The layout is for DejaVu Sans, which is wider than these fonts."""
_NO_METADATA = {"Creator": None, "Date": None, "Format": None, "Type": None}


def on_dark(colour: str) -> str:
    """``#rrggbb`` for a dark page: greys are inverted, and other colours are made lighter if
    necessary."""
    hue, light, full = rgb_to_hls(*_parts(colour))
    if full < 0.25 or light > 0.85:
        light = 0.95 - 0.75 * light
    while light < 0.9 and _contrast(hls_to_rgb(hue, light, full)) < 4:
        light += 0.02
    return "#" + "".join(f"{round(255 * part):02x}" for part in hls_to_rgb(hue, light, full))


def _parts(colour: str) -> tuple[float, float, float]:
    red, green, blue = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    return red, green, blue


def _contrast(parts: tuple[float, float, float]) -> float:
    """The contrast of a colour with a dark page (WCAG 2, relative luminance)."""
    return (_luminance(parts) + 0.05) / (_luminance(_parts(BACK[1])) + 0.05)


def _luminance(parts: tuple[float, float, float]) -> float:
    linear = [
        part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return sum(share * part for share, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def _cleaned(root: ElementTree.Element, colours: set[str]) -> dict[str, ElementTree.Element]:
    """Replace colours by variables, shorten numbers, and take out shared shapes, which are returned
    by id."""
    shapes: dict[str, ElementTree.Element] = {}
    for parent in [*root.iter()]:
        for child in [*parent]:
            if child.tag == f"{{{_SVG}}}defs":
                shapes |= {each.get("id", ""): each for each in child}
                parent.remove(child)
            elif child.tag == f"{{{_SVG}}}metadata" or child.get("style") == "fill: none":
                parent.remove(child)
    for element in [*root.iter(), *(each for shape in shapes.values() for each in shape.iter())]:
        if (link := element.attrib.pop(_LINK, None)) is not None:
            element.set("href", link)
        for key in ("d", "transform", "x", "y", "points"):
            if (value := element.get(key)) is not None:
                element.set(key, _LONG.sub(_short, value).replace("\n", " "))
        if element.tag == f"{{{_SVG}}}text":
            element.set("style", _FONT.sub("", element.get("style", "")))
            if element.get("transform", "").startswith("rotate(-0 "):
                del element.attrib["transform"]
        for key in ("style", "fill", "stroke"):
            if (value := element.get(key)) is not None:
                colours |= {each for each in _COLOUR.findall(value) if each not in _FIXED}
                element.set(key, _COLOUR.sub(_variable, value))
    return shapes


def _variable(found: re.Match[str]) -> str:
    return _FIXED.get(found[0], f"var(--c{found[0][1:]})")


def _short(found: re.Match[str]) -> str:
    return f"{float(found[0]):.2f}".rstrip("0").rstrip(".")


def _note(element: ElementTree.Element) -> dict[str, Any] | None:
    """What the figure notes about an element's artist. Other groups lose their ids."""
    if element.tag == f"{{{_SVG}}}g" and (text := element.attrib.pop("id", None)):
        note: dict[str, Any] | None = json.loads(text) if text.startswith("{") else None
        return note
    return None


def _explained(element: ElementTree.Element, note: Mapping[str, Any]) -> None:
    if note["is"] == "mark":
        element.set("class", "mark")
    if "system" in note:
        element.set("data-system", note["system"])
    if "words" in note:
        title = ElementTree.Element(f"{{{_SVG}}}title")
        title.text = note["words"]
        element.insert(0, title)


def _panel(
    element: ElementTree.Element,
    note: Mapping[str, Any],
    shapes: Mapping[str, ElementTree.Element],
    name: str,
    height: float,
) -> Panel:
    own = deepcopy(element)
    left, bottom, wide, high = note["box"]
    words = [each.text or "" for each in own.iter(f"{{{_SVG}}}title")]
    said = f": {'; '.join(words)}" if 0 < len(words) <= _MOST_WORDS else ""
    svg = ElementTree.Element(
        f"{{{_SVG}}}svg",
        {
            "viewBox": f"{left:.4g} {height - bottom - high:.4g} {wide:.4g} {high:.4g}",
            "role": "img",
            "aria-label": " ".join(note["title"].split()) + said,
            "style": f"aspect-ratio: {wide:.4g} / {high:.4g}",
        },
    )
    defined = ElementTree.SubElement(svg, f"{{{_SVG}}}defs")
    defined.extend(deepcopy(each) for each in _used(own, shapes))
    svg.append(own)
    text = _text(svg).replace(f' xmlns="{_SVG}"', "", 1)
    for shape in defined:
        known = shape.get("id", "")
        text = text.replace(f"#{known}", f"#{name}-{known}").replace(
            f'id="{known}"', f'id="{name}-{known}"'
        )
    return Panel(note["title"], note["facets"], text)


def _used(
    element: ElementTree.Element, shapes: Mapping[str, ElementTree.Element]
) -> Iterator[ElementTree.Element]:
    """The shared shapes to which an element refers."""
    names: dict[str, None] = {}
    for each in element.iter():
        for value in each.attrib.values():
            names |= dict.fromkeys(_REFERENCE.findall(value))
        if (link := each.get("href", "")).startswith("#"):
            names[link[1:]] = None
    return (shapes[name] for name in names if name in shapes)


def _text(element: ElementTree.Element) -> str:
    return ElementTree.tostring(element, encoding="unicode")


def _swatch(entry: Mapping[str, str], colours: set[str]) -> str:
    """The symbol of a legend entry."""
    inked = {key: entry.get(key) or "none" for key in ("line", "fill", "edge")}
    colours |= {each for each in inked.values() if each.startswith("#") and each not in _FIXED}
    shown = {key: _COLOUR.sub(_variable, value) for key, value in inked.items()}
    drawn = ""
    if entry["line"]:
        drawn += f'<path d="M1 6H25" style="stroke: {shown["line"]}; stroke-width: {entry["width"]}'
        drawn += f'; stroke-dasharray: {entry["dashes"]}"/>' if entry["dashes"] else '"/>'
    if entry["shape"]:
        drawn += (
            f'<path d="{entry["shape"]}" style="fill: {shown["fill"]}; stroke: {shown["edge"]}"/>'
        )
    return f'<svg class="swatch" viewBox="0 0 26 12" aria-hidden="true">{drawn}</svg>'
