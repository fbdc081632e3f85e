"""The report's files: a self-contained page, Markdown, figures and the means."""

from __future__ import annotations

import json
import os
import re
import shlex
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree

import pandas as pd
import pytest
from made_up import EXPERIMENT, ROW, STYLES, rows, run

from testbed.report.drawing import Picture
from testbed.report.page import build
from testbed.results import RunDirectory

NOTHING = {
    "jct_s": None, "iteration_s": None, "throughput_samples_s": None, "algbw_gbit_s": None,
    "exposed_comm_s": None, "retransmitted": None, "collisions": None,
}  # fmt: skip
FAILED = replace(
    ROW, verified=False, verdict="failed", error="rank 3 <died> | 1", repeat=7, **NOTHING
)
PICTURE = Picture(
    "leaf-spine",
    {"h0": "host", "h1": "host", "t0": "tor", "s0": "spine"},
    (("h0", "t0"), ("h1", "t0"), ("t0", "s0")),
    frozenset({"t0"}),
)


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.outside: list[str] = []
        self.anchors: set[str] = set()
        self.jumps: set[str] = set()
        self.files: set[str] = set()
        self.ids: list[str] = []

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name == "id":
                self.anchors.add(value)
                self.ids.append(value)
            if name == "href" and value.startswith("#"):
                self.jumps.add(value[1:])
            elif tag == "a" and name == "href":
                self.files.add(value)
            elif name in ("src", "href", "xlink:href") and not value.startswith(("data:", "#")):
                self.outside.append(f"{tag} {name}={value}")


def read(path: Path) -> tuple[str, _Page]:
    page = _Page()
    page.feed(path.read_text())
    return path.read_text(), page


@pytest.mark.parametrize("systems", [("ps", "ring", "atp"), ("atp",), ("unheard-of",)])
def test_the_page_needs_nothing_else_and_says_what_failed(tmp_path, systems):
    good = [row for i, system in enumerate(systems) for row in rows(system, 1.0 + i, 1.1 + i)]
    path = build(
        [run(tmp_path, [*good, replace(FAILED, system=systems[0])])],
        tmp_path / "out",
        STYLES,
        lambda *_: PICTURE,
    )
    text, page = read(path)
    assert page.outside == []
    assert page.jumps <= page.anchors
    assert len(page.ids) == len(page.anchors), "an id occurs twice"
    assert [each for each in page.files if not (path.parent / each).exists()] == []
    assert "rank 3 &lt;died&gt; | 1" in text
    assert "1 failed" in text
    title = STYLES[systems[0]].title if systems[0] in STYLES else systems[0]
    markdown = (tmp_path / "out" / "report.md").read_text()
    assert f"| {title} |" in markdown
    assert "rank 3 &lt;died> \\| 1" in markdown
    names = {"jct", "exposed", "closed-form", "iterations", "timeline-1", "links", "fabric-1"}
    names |= {"speed-up"} if "ring" in systems else set()
    figures = tmp_path / "out" / "figures"
    assert {each.stem for each in figures.iterdir()} == names
    for name in names:
        pdf = (figures / f"{name}.pdf").read_bytes()
        assert b"/Type3" not in pdf and b"/FontFile2" in pdf
        ElementTree.parse(figures / f"{name}.svg")
        assert f'id="figure-{name}"' in text
    means = pd.read_csv(tmp_path / "out" / "summary.csv").set_index("system")
    assert means.loc[systems[0], "jct_s"] == pytest.approx(1.05)


def test_links_and_commands_work_for_a_directory_of_any_name(tmp_path):
    made = run(tmp_path / """a 'b' "c" <d> & #1 100%20?""", rows("ps", 4.0), experiment=EXPERIMENT)
    path = build([made], tmp_path / "out", STYLES)
    text, page = read(path)
    assert page.files
    assert [each for each in page.files if not (path.parent / unquote(each)).exists()] == []
    assert not any(mark in each for each in page.files for mark in "#? ")
    (source,) = re.findall(r'id="sources">(.*)</script>', text)
    (command,) = (each["command"] for each in json.loads(source).values())
    assert Path(shlex.split(command)[2]).samefile(made / "experiment.yaml")


def test_letters_that_the_figures_font_lacks_give_no_warning(tmp_path):
    made = run(tmp_path, rows("ps", 4.0, workload="./é日本.trace"))
    path = build([made], tmp_path / "out", STYLES)
    assert "é日本" in read(path)[0]


def test_every_answer_about_a_system_and_a_run_is_there(tmp_path):
    path = build([run(tmp_path, rows("ps", 4.0))], tmp_path / "out", STYLES)
    text, _ = read(path)
    for words in ("Li et al.", "Published:", "push", "Our reading:", "pull", "(200)", "1/128",
                  "35 % of the processor", "Mann-Whitney", "leaves: 2", "3.11"):  # fmt: skip
        assert words in text, words


def test_runs_of_different_experiments_fabrics_and_backends_make_one_report(tmp_path):
    deployments = [
        row
        for count, time_ in ((0, 4.0), (1, 3.0), (2, 2.0))
        for row in rows("atp", time_, cell=f"atp{count}", ina_tors=count)
    ]
    first = run(tmp_path, [*deployments, *rows("ring", 3.0, ina_tors=0)], "one")
    graph = {
        "kind": "graph", "host_rate": "9Gbit", "switches": {"S1": ["a"], "S2": ["b"]},
        "links": [{"ends": ["S1", "S2"], "rate": "3Gbit"}],
    }  # fmt: skip
    second = run(
        tmp_path,
        rows("ring", 1.0, topology="graph of 2 switches", backend="simulate", verified=None),
        "two",
        {**EXPERIMENT, "fabric": graph},
    )
    path = build([first, second], tmp_path / "out", STYLES)
    text, _ = read(path)
    assert "one/" in text and "two/" in text
    words = (path.parent / "report.md").read_text()
    assert "INA at 2/2 ToRs: ATP is fastest, 1.50 times as fast as Ring" in words
    assert "Graph of 2 switches, INA at 2/2 ToRs (simulated): only Ring" in words
    assert "<b>1.50× Ring</b>" in text and "the only one that ran" in text
    assert "S1–S2 3Gbit" in text
    figures = {each.stem for each in (tmp_path / "out" / "figures").iterdir()}
    assert {"throughput-ina", "jct-ina", "closed-form"} <= figures


def test_packets_beside_the_emulator_have_a_section_of_their_own(tmp_path):
    emulated, packets = rows("ring", 2.0), rows("ring", 2.1, backend="packet", cell="p")
    path = build([run(tmp_path, emulated + packets, "both")], tmp_path / "both" / "out", STYLES)
    for page in (path, path.with_suffix(".md")):
        assert "Packets against the emulator" in page.read_text()
        assert "Where both are valid (1), they differ by 5.0 % in the median" in page.read_text()
    path = build([run(tmp_path, emulated, "one")], tmp_path / "one" / "out", STYLES)
    assert "Packets against the emulator" not in path.read_text()


def test_jobs_side_by_side_have_a_section_of_their_own(tmp_path):
    both = rows("atp", 3.0, job=0, cell="x") + rows("ring", 4.0, job=1, cell="x")
    experiment = {**EXPERIMENT, "jobs": EXPERIMENT["jobs"] * 2}
    path = build([run(tmp_path, both, experiment=experiment)], tmp_path / "out", STYLES)
    text, _ = read(path)
    assert "Several jobs at once" in text and "Jain's index" in text
    assert "jobs" in {each.stem for each in (tmp_path / "out" / "figures").iterdir()}


def test_systems_are_compared_beside_the_same_jobs(tmp_path):
    two = {**EXPERIMENT, "jobs": EXPERIMENT["jobs"] * 2}
    made = [
        each
        for system, time, other in (("atp", 2.0, 6.0), ("ring", 3.0, 6.0), ("ps", 4.0, 5.0))
        for each in rows(system, *[time] * 5, job=0, cell=system)
        + rows("ring", *[other] * 5, job=1, cell=system)
    ]
    one = run(tmp_path, made, "one", experiment=two)
    page = build([one], tmp_path / "out", STYLES).with_suffix(".md")
    text = page.read_text()
    assert "job 0 beside ring resnet50, INA at 2/2 ToRs: ATP is fastest, 1.50 times as" in text
    assert "job 1" not in text  # each of its rows has other company
    # A neighbour that is not valid makes its cell not valid.
    bad = [replace(row, verdict="busy") if row.cell == "atp" and row.job else row for row in made]
    page = build([run(tmp_path, bad, "bad", experiment=two)], tmp_path / "bad", STYLES)
    assert "Ring is fastest, 1.33 times" in page.with_suffix(".md").read_text()


def test_only_failed_rows_still_make_a_report(tmp_path):
    directory = RunDirectory.create(tmp_path, "none")
    directory.append([FAILED])
    text, _ = read(build([directory.path], tmp_path / "out", STYLES))
    assert "No job has finished: " in text and "rank 3" in text


def test_a_row_that_was_cut_off_is_not_silently_left_out(tmp_path):
    made = run(tmp_path, rows("ps", 4.0) + rows("ring", 2.0))
    path = made / "results.csv"
    path.write_bytes(path.read_bytes()[:-9])
    text, _ = read(build([made], tmp_path / "out", STYLES))
    assert "1 of 1 rows are valid, 1 incomplete and left out." in text


def test_no_rows_at_all_still_make_a_report(tmp_path):
    directory = RunDirectory.create(tmp_path, "none")
    text, _ = read(build([directory.path], tmp_path / "out", STYLES))
    assert "0 of 0 rows are valid" in text


def test_invalid_rows_do_not_count_and_the_page_says_so(tmp_path):
    made = run(tmp_path, rows("ps", 4.0) + rows("ps", 8.0, verdict="busy"))
    text, _ = read(build([made], tmp_path / "out", STYLES))
    assert "Only valid rows are compared." in text


def test_a_report_forks_no_process(tmp_path, monkeypatch):
    # A notebook that calls it has threads, and a forked process would inherit their locks.
    def fork():
        raise AssertionError("a report was about to fork")

    monkeypatch.setattr(os, "fork", fork)
    build([run(tmp_path, rows("ps", 4.0, 4.1))], tmp_path / "out", STYLES)
    assert (tmp_path / "out" / "figures" / "jct.pdf").read_bytes().startswith(b"%PDF")


def test_long_settings_leave_room_for_the_figures(tmp_path):
    """As those of experiments/zero-dp.yaml, whose report failed on its links."""
    options = [
        {"stage": 2, "collectives": "trees"},
        {"stage": 3, "collectives": "hierarchical", "reshard_after_forward": False},
    ]
    two = [
        row
        for cell, given in zip("ab", options, strict=True)
        for row in rows("zero-dp", 1.0, cell=cell, settings=json.dumps({"jobs.0.options": given}))
    ]
    build([run(tmp_path, two)], tmp_path / "out", STYLES)
    assert (tmp_path / "out" / "figures" / "links.svg").exists()


def test_names_may_have_a_dollar(tmp_path):
    """It begins a formula in figures, unless they are told not to look for any."""
    odd = r"./a$x_{$b"
    styles = STYLES | {"ps": replace(STYLES["ps"], title=odd)}
    found = run(tmp_path, [*rows("ps", 1.0, 2.0), *rows("ring", 3.0, 4.0, workload=odd)])
    text, _ = read(build([found], tmp_path / "out", styles))
    assert odd in text
