"""The documentation site is built without a warning."""

from __future__ import annotations

import re
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


DOCUMENTS = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "testbed").rglob("*.md"),
             *(ROOT / "p4").glob("*.md"), *(ROOT / "workloads").glob("*.md"),
             *(ROOT / "experiments").rglob("*.md")]  # fmt: skip


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_to_files_that_are_there(path: Path) -> None:
    text = re.sub(r"```.*?```", "", path.read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s#]+)[^)]*\)", text):
        if not target.startswith(("http:", "https:")):
            assert (path.parent / target).exists(), target
