"""The pages' templates: HTML templates escape their values, Markdown templates those that the
filter ``md`` gets."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import jinja2

from testbed.report.tables import md, number


@cache
def environment() -> jinja2.Environment:
    """The environment that finds templates, and compiles each once. A name without a value is an
    error."""
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=jinja2.select_autoescape(["html.j2"]),
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    made.filters |= {"fraction": fraction, "md": md, "number": number}
    return made


def fraction(scale: float) -> str:
    """1/64 for 0.015625."""
    return f"1/{1 / scale:g}" if 0 < scale < 1 else f"{scale:g}"
