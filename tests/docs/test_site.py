"""The documentation site is built without a warning."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_it_is_built_without_a_warning(tmp_path: Path) -> None:
    for module in ("sphinx", "furo", "myst_parser"):
        pytest.importorskip(module, reason="the extra docs is not installed")
    site = tmp_path / "site"
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-d", str(tmp_path / "trees"),
         str(ROOT / "docs"), str(site)],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    verbs = (site / "reference/verbs.html").read_text()
    assert "Usage: ina-testbed trace import" in verbs
    assert "in_flight" in (site / "reference/systems.html").read_text()
    assert "oversubscription" in (site / "reference/experiment.html").read_text()
    assert "<!-- generated" not in "".join(page.read_text() for page in site.rglob("*.html"))
