"""The documentation site: python -m sphinx -W docs build/docs"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))

import generated
from sphinx.application import Sphinx

import testbed

project = "INA testbed"
version = release = testbed.__version__
author = "The authors of ina-testbed"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["Thumbs.db"]
suppress_warnings = ["misc.highlighting_failure"]  # of listings that are cut with "..."
highlight_language = "none"

myst_enable_extensions = ["colon_fence", "deflist", "fieldlist"]
myst_heading_anchors = 4

autodoc_member_order = "bysource"
autodoc_typehints = "none"
napoleon_use_ivar = True
napoleon_use_rtype = False
default_role = "literal"
smartquotes = False
python_use_unqualified_type_names = True

html_theme = "furo"
html_title = "INA testbed"
html_copy_source = False
html_show_sphinx = False
templates_path: list[str] = []


def setup(app: Sphinx) -> None:
    app.connect("source-read", generated.fill)
    app.connect("autodoc-process-signature", _without_fields)


def _without_fields(
    app: Sphinx, what: str, name: str, found: object, options: object, signature: str, returns: str
) -> tuple[str, str] | None:
    """A class's fields are listed below it."""
    return ("", "") if what == "class" else None
