"""The claims page in a browser: in the widths of a phone and of a desktop, light and dark."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle, product
from pathlib import Path

import headless
import pytest
from looks import faults

from testbed.studies.claims.page import WORDS, Beside, Judged, Observed, Page, write
from testbed.studies.claims.run import read
from testbed.studies.claims.verdict import Number, Verdict

BROWSER = headless.found()
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed")
PHONE, DESK = 390, 1280
NUMBER = Number(1.52, 1.5, 1.54, "packets, 5 repeats", (("2 workers", 1.5), ("4 workers", 1.54)))
SHOWN = "[...document.querySelectorAll('.claim')].filter(each => !each.hidden)"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All claims of this testbed, with made-up verdicts."""
    words = cycle(WORDS)
    made = Page()
    for file in read():
        made.judged += [
            Judged(file, claim, Verdict(next(words), "As was made up here.", NUMBER))
            for claim in file.claims
        ]
        made.observed += [Observed(file, each, NUMBER) for each in file.observations]
        made.beside += [Beside(file, each, [NUMBER] * len(each.measures)) for each in file.figures]
    return write(made, tmp_path_factory.mktemp("claims"))


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[headless.Tab]:
    assert BROWSER is not None
    with headless.tab(BROWSER, tmp_path_factory.mktemp("browser") / "home") as opened:
        yield opened


@pytest.mark.parametrize(("width", "scheme"), [*product((PHONE, DESK), ("light", "dark"))])
def test_nothing_is_cut_off_hidden_or_unnamed(tab, page, width, scheme):
    tab.open(page, width, scheme=scheme)
    tab.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
    assert not faults(tab, width)
    assert tab.evaluate("document.querySelectorAll('.panel > svg').length") > 2


def test_a_number_of_the_matrix_shows_its_claims(tab, page):
    tab.open(page, DESK)
    whole = tab.evaluate(f"{SHOWN}.length")
    cell = "document.querySelector('.counts td a')"
    number = tab.evaluate(f"parseInt({cell}.textContent)")
    address = tab.evaluate(f"{cell}.hash")
    tab.open(page, DESK, part=address)
    shown = tab.evaluate(f"{SHOWN}.map(each => [each.dataset.paper, each.dataset.verdict])")
    assert 0 < len(shown) == number < whole
    assert len({*map(tuple, shown)}) == 1
    tab.evaluate("document.querySelector('.filters').reset()")
    assert tab.evaluate(f"new Promise(done => setTimeout(() => done({SHOWN}.length)))") == whole


def test_an_address_opens_its_claim(tab, page):
    name = read()[0].claims[0].name
    tab.open(page, PHONE, part=f"#{name}")
    opened = "[...document.querySelectorAll('.claim[open]')].map(each => each.id)"
    assert tab.evaluate(opened) == [name]
