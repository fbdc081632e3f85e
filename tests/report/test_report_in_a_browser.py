"""The page in a browser, at a phone's and a desktop's width, light and dark. Needs Chromium."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path

import headless
import pytest
from looks import faults
from made_up import EXPERIMENT, STYLES, rows, run

from testbed.report.drawing import Picture
from testbed.report.page import build

BROWSER = headless.found()
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed")
PHONE, DESK = 390, 1280
LONG = "a-system-with-a-long-name"
PICTURE = Picture(
    "leaf-spine 2x5, 2 spines",
    {"h0": "host", "h1": "host", "t0": "tor", "s0": "spine"},
    (("h0", "t0"), ("h1", "t0"), ("t0", "s0")),
    frozenset({"t0"}),
)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("browser")


@pytest.fixture(scope="module")
def page(root: Path) -> Path:
    """Two runs: several places of INA on one fabric, and a second fabric and workload."""
    first = [
        row
        for count, factor in ((0, 3.0), (1, 1.0), (2, 1.0))
        for name, time in (("atp", 1.0), ("ring", 1.02), ("ps", 4.0))
        for row in rows(
            name, *(factor * time * part for part in (1.0, 1.01, 1.02, 1.03, 1.04, 1.05)),
            cell=f"{name}{count}", ina_tors=count,
        )
    ]  # fmt: skip
    second = [
        *rows("ps", 4.0, 4.1, 4.2, workload="bert-base"),
        *rows("ring", 30.0, 29.0, 31.0, workload="bert-base"),
        *rows("atp", 0.5, 0.6, 0.7, verdict="processor idle only 1%", workload="bert-base"),
    ]
    far = "fat-tree k=8, 4+4+4+4+4+4+4+4+4+4+4+3"
    third = [
        *rows(LONG, 3.0, topology=far, backend="packet"),
        *rows("ring", 3.5, topology=far, backend="packet"),
    ]
    runs = [run(root, first, "one"), run(root, second + third, "two")]
    (runs[0] / "logs" / "atp2-0").mkdir()
    (runs[0] / "logs" / "atp2-0" / "rank-0.log").write_text("began\n")
    return build(runs, root / "out", STYLES, lambda *_: PICTURE)


@pytest.fixture(scope="module")
def tab(root: Path) -> Iterator[headless.Tab]:
    assert BROWSER is not None
    with headless.tab(BROWSER, root / "home") as opened:
        yield opened


@pytest.mark.parametrize(("width", "scheme"), [*product((PHONE, DESK), ("light", "dark"))])
def test_nothing_is_cut_off_hidden_or_unnamed(tab, page, width, scheme):
    tab.open(page, width, scheme=scheme)
    assert not faults(tab, width)
    assert tab.evaluate("document.querySelectorAll('.panel > svg').length") > 12


def test_text_in_figures_is_large_enough_for_a_phone(tab, page):
    tab.open(page, PHONE)
    heights = (
        "[...document.querySelectorAll('.panel text')].map(e => e.getBoundingClientRect().height)"
    )
    assert min(tab.evaluate(heights)) > 7


def test_figures_follow_a_dark_page(tab, page):
    marks = "[...document.querySelectorAll('.panel use, .panel > svg > g path')]"
    colours = f"[...new Set({marks}.flatMap(e => [getComputedStyle(e).stroke, e.style.fill]))]"
    white, black = "var(--back)", "rgb(0, 0, 0)"
    tab.open(page, DESK, scheme="light")
    light = tab.evaluate(colours)
    tab.open(page, DESK, scheme="dark")
    dark = tab.evaluate(colours)
    assert white in light and white in dark
    assert black not in light and black not in dark
    assert "rgb(255, 255, 255)" not in dark


def test_marks_say_what_they_are(tab, page):
    tab.open(page, DESK)
    # Scrolling hides a tooltip, so the pointer waits until the page has handled the scrolling.
    place = """
        new Promise(done => {
          const mark = document.querySelector("#figure-jct-ina .mark[data-system=atp][data-tip]");
          addEventListener("scroll", () => {
            const box = mark.getBoundingClientRect();
            done([box.left + box.width / 2, box.top + box.height / 2]);
          }, {once: true});
          mark.scrollIntoView({block: "center", behavior: "instant"});
        })
    """
    x, y = tab.evaluate(place)
    tab.point(x, y)
    assert tab.evaluate("document.getElementById('tip').hidden") is False
    said = tab.evaluate("document.getElementById('tip').textContent")
    for words in ("ATP: JCT", "95 % interval", "n = 6", "valid"):
        assert words in said
    box = tab.evaluate(
        "(({left, right}) => [left, right])(document.getElementById('tip').getBoundingClientRect())"
    )
    assert 0 <= box[0] < box[1] <= DESK
    assert tab.evaluate("document.querySelectorAll('svg title').length") == 0  # no second tooltip


def test_the_answer_says_ties_margins_and_how_sure(tab, page):
    tab.open(page, PHONE)
    cells = tab.evaluate(
        "[...document.querySelectorAll('.best')].map(e => e.innerText.replace(/\\s+/g, ' '))"
    )
    assert any("ATP = Ring" in cell and "4.00× PS" in cell and "p = " in cell for cell in cells)
    assert any("too few repeats (1 and 1, " in cell for cell in cells)
    assert tab.evaluate("document.querySelectorAll('.best.sure').length") == 3


FILTER = """
    (() => {
      const form = document.querySelector(".filters");
      form.elements[%r].value = %r;
      form.dispatchEvent(new Event("change", {bubbles: true}));
      const found = query => [...document.querySelectorAll(query)];
      const shown = query => found(query).filter(each => !each.closest("[hidden]")).length;
      return {
        matrix: shown(".matrix tbody tr"),
        panels: shown("#figure-jct .panel"),
        means: document.querySelector("[data-name=summary] .count").textContent,
        pale: document.querySelectorAll(".mark.dim").length,
        address: location.hash,
      };
    })()
"""


def test_everything_is_filtered_by_workload_fabric_and_system(tab, page):
    tab.open(page, DESK)
    found = tab.evaluate(FILTER % ("workload", "BERT-base"))
    assert (found["matrix"], found["panels"]) == (1, 1)
    assert found["means"] == "3 of 14 settings and systems"
    assert found["pale"] == 0
    found = tab.evaluate(FILTER % ("system", "ring"))
    assert found["means"] == "1 of 14 settings and systems"
    assert found["pale"] > 20
    assert found["address"] == "#answer?workload=BERT-base&system=ring"
    tab.evaluate("document.querySelector('.filters').reset()")
    found = tab.evaluate(FILTER % ("fabric", "Fat-tree of 8 pods, 12 racks, 47 hosts"))
    assert (found["matrix"], found["panels"]) == (1, 1)
    tab.open(page, DESK, part="#summary?workload=BERT-base&find=ps")
    assert tab.evaluate("document.querySelectorAll('[data-name=summary] tbody tr').length") == 1


COLUMN = """
    (() => {
      const table = document.querySelector("[data-name=summary] table");
      const heads = [...table.tHead.rows[0].cells];
      const at = heads.findIndex(each => each.textContent === %r);
      %s
      return [...table.tBodies[0].rows].map(row => row.cells[at].textContent);
    })()
"""


def test_tables_sort_by_numbers_both_ways_with_what_is_missing_last(tab, page):
    tab.open(page, DESK)
    click = "heads[at].click();"
    up = [float(text) for text in tab.evaluate(COLUMN % ("JCT (s)", click))]
    assert up == sorted(up) and len(set(up)) > 4
    assert [float(text) for text in tab.evaluate(COLUMN % ("JCT (s)", click))] == up[::-1]
    assert tab.evaluate("document.querySelectorAll('[aria-sort=descending]').length") == 1
    for _ in range(2):
        assert tab.evaluate(COLUMN % ("95 % interval", click))[-2:] == ["–", "–"]


def test_system_and_time_stay_in_view_on_a_phone(tab, page):
    tab.open(page, PHONE)
    lefts = """
        (() => {
          const box = document.querySelector("[data-name=summary] .scroll");
          box.scrollIntoView();
          box.scrollLeft = 1e6;
          const cells = [...box.querySelectorAll("tbody tr")[1].cells];
          return [box.scrollLeft, ...cells.slice(0, 3).map(e => e.getBoundingClientRect().left)];
        })()
    """
    scrolled, system, time, other = tab.evaluate(lefts)
    assert scrolled > 200
    assert 0 <= system < time < PHONE - 60 and other < 0


def test_a_row_has_its_files_and_the_command_that_runs_its_cell_again(tab, page):
    tab.open(page, PHONE, part="#rows?find=atp2")
    opened = """
        (() => {
          document.querySelector("[data-name=rows] .open").click();
          const detail = document.querySelector(".detail");
          const links = [...detail.querySelectorAll("a")].map(each => each.href);
          return [detail.querySelector("code").textContent, links];
        })()
    """
    command, links = tab.evaluate(opened)
    assert command.startswith("ina-testbed run ") and command.endswith(
        "experiment.yaml --cell atp2"
    )
    assert any(link.endswith("logs/atp2-0/rank-0.log") for link in links)
    assert any(link.endswith("#rows?find=atp2") for link in links)
    assert any(link.endswith("results.csv") for link in links)
    assert tab.evaluate("document.documentElement.scrollWidth") <= PHONE


def test_large_tables_are_shown_a_part_at_a_time(tab, root):
    times = [1 + place / 1000 for place in range(401)]
    many = [row for at, time in enumerate(times) for row in rows("ring", time, cell=f"c{at}")]
    large = build([run(root, many, "many", EXPERIMENT)], root / "many-out", STYLES)
    tab.open(large, DESK)
    count = "document.querySelectorAll('[data-name=rows] tbody tr').length"
    assert tab.evaluate(count) == 200
    tab.evaluate("document.querySelector('[data-name=rows] .more').click()")
    assert tab.evaluate(count) == 401
    find = """
        (() => {
          const input = document.querySelector("[data-name=rows] input");
          input.value = "c399";
          input.dispatchEvent(new Event("input"));
          return document.querySelector("[data-name=rows] tbody").innerText;
        })()
    """
    assert "c399" in tab.evaluate(find)
    assert tab.evaluate(count) == 1
    assert tab.complaints == []


def test_a_fabric_of_many_racks_and_fast_jobs_have_room_for_their_labels(root, tab):
    """Of 32 racks with four hosts each, and of over 100,000 samples/s on a logarithmic axis."""
    tors = [f"t{each}" for each in range(32)]
    hosts = [(f"h{each}", tors[each // 4]) for each in range(128)]
    large = Picture(
        "fat-tree k=8, 32x4",
        {"s0": "spine", **dict.fromkeys(tors, "tor"), **{host: "host" for host, _ in hosts}},
        (*hosts, *((tor, "s0") for tor in tors)),
        frozenset(tors),
    )
    table = [
        replace(row, throughput_samples_s=1e5 / factor)
        for count, factor in ((0, 30.0), (2, 1.0))
        for row in rows("atp", factor, 1.1 * factor, cell=f"atp{count}", ina_tors=count)
    ]
    built = build([run(root, table, "large")], root / "large", STYLES, lambda *_: large)
    tab.open(built, DESK)
    assert "100k" in tab.evaluate("document.querySelector('#figure-throughput-ina').textContent")
    assert "number of hosts" in tab.evaluate("document.body.textContent")
    assert not faults(tab, DESK)


@pytest.mark.parametrize("shown", ["everyone", "quick"])
@pytest.mark.parametrize(("width", "scheme"), [(PHONE, "dark"), (DESK, "light")])
def test_reports_of_the_repository_have_no_faults(tab, shown, width, scheme):
    """The pages of the reference are left out: they are drawn only when it is made, because the
    tables of its links and iterations are not kept."""
    shown = Path(__file__).parents[2] / "reports" / shown / "report.html"
    tab.open(shown, width, scheme=scheme)
    assert not faults(tab, width)
    every = "[...document.querySelectorAll('a[href]')].map(each => each.getAttribute('href'))"
    missing = [
        address
        for address in tab.evaluate(every)
        if not address.startswith(("#", "http", "data:")) and not (shown.parent / address).exists()
    ]
    assert not missing, "links to what is not there"
