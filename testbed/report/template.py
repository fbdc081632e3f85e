"""The pages' templates: those of HTML escape what they are given, those of Markdown do not."""

from __future__ import annotations

from pathlib import Path

import jinja2


def environment() -> jinja2.Environment:
    """Where templates are found. To use a name that a page was not given is an error."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=jinja2.select_autoescape(["html.j2"]),
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
