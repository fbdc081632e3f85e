"""The page on a phone. Skipped if no Chromium is installed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import headless
import pytest
from made_up import STYLES, rows, run

from testbed.report.page import build

BROWSER = headless.found()
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed")
PHONE = 390


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[headless.Tab]:
    root: Path = tmp_path_factory.mktemp("browser")
    made = [
        *rows("ps", 4.0, 4.1, 4.2),
        *rows("ring", 10.0, 9.0, 11.0),
        *rows("atp", 0.5, 0.6, 0.7, verdict="processor idle only 1% in its busiest second"),
        *rows("a-system-with-a-long-name", 3.0, topology="fat-tree k=8, 4+4+4+4+4+4+4+4+4+4+4+4"),
    ]
    page = build([run(root, made)], root / "out", STYLES)
    assert BROWSER is not None
    with headless.tab(BROWSER, root / "home") as opened:
        opened.open(page, PHONE)
        yield opened


def test_nothing_sticks_out_of_a_phones_screen(tab: headless.Tab) -> None:
    assert tab.evaluate("window.innerWidth") == PHONE
    assert tab.evaluate("document.documentElement.scrollWidth") <= PHONE
    text = "parseFloat(getComputedStyle(document.querySelector('p')).fontSize)"
    assert tab.evaluate(text) >= 14


def test_figures_are_there_and_legible(tab: headless.Tab) -> None:
    sizes = tab.evaluate("[...document.images].map(i => [i.naturalWidth, i.width, i.alt.length])")
    assert len(sizes) > 4
    for natural, shown, words in sizes:
        # The page is 1432 pixels wide in print; on a screen, less than 600 would be too small.
        assert natural > 0 and shown >= min(600, natural / 2.1) and words > 20


def test_tables_sort_by_numbers_both_ways(tab: headless.Tab) -> None:
    column = """
        (() => {
          const table = document.querySelector("#summary ~ .scroll table");
          const heads = [...table.tHead.rows[0].cells];
          const at = heads.findIndex(each => each.textContent === "JCT (s)");
          %s
          return [...table.tBodies[0].rows].map(row => parseFloat(row.cells[at].textContent));
        })()
    """
    click = "heads[at].click();"
    assert sorted(tab.evaluate(column % "")) == [0.6, 3.0, 4.1, 10.0]
    assert tab.evaluate(column % click) == [0.6, 3.0, 4.1, 10.0]
    assert tab.evaluate(column % click) == [10.0, 4.1, 3.0, 0.6]
    assert tab.evaluate("document.querySelectorAll('[aria-sort=descending]').length") == 1


def test_what_is_missing_sorts_last(tab: headless.Tab) -> None:
    script = """
        (() => {
          const table = document.querySelector("#summary ~ .scroll table");
          const heads = [...table.tHead.rows[0].cells];
          const at = heads.findIndex(each => each.textContent === "95 % interval");
          heads[at].click();
          const first = [...table.tBodies[0].rows].at(-1).cells[at].textContent;
          heads[at].click();
          return [first, [...table.tBodies[0].rows].at(-1).cells[at].textContent];
        })()
    """
    assert tab.evaluate(script) == ["–", "–"]


def test_nobody_complains(tab: headless.Tab) -> None:
    assert tab.complaints == []
