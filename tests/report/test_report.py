"""The report from made-up results whose answers are known."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from testbed import results
from testbed.report import Look, build, data
from testbed.results import Iteration, Row, RunDirectory

LOOKS = {
    "ps": Look("PS", "#777777", "s", "Li et al.", ("push",), ("pull",)),
    "ring": Look("Ring", "#1f77b4", "o"),
    "atp": Look("ATP", "#d62728", "^"),
}
ROW = Row(
    experiment="made-up",
    cell="c0",
    repeat=0,
    job=0,
    system="ps",
    workload="resnet50",
    topology="leaf-spine 2x5, 2 spines",
    workers=8,
    servers=1,
    ina_tors=2,
    tors=2,
    backend="emulate",
    switch_target="",
    dilation=200,
    scale=1 / 128,
    iterations=3,
    jct_s=4.0,
    iteration_s=4 / 3,
    throughput_samples_s=100.0,
    algbw_gbit_s=1.0,
    exposed_comm_s=0.5,
    retransmitted=0,
    collisions=0,
    verified=True,
    verdict="valid",
    expected_jct_s=3.9,
)


def rows(system: str, *times: float, **changes) -> list[Row]:
    return [
        replace(ROW, system=system, cell=system, repeat=i, jct_s=time, **changes)
        for i, time in enumerate(times)
    ]


def run(tmp_path, all_rows: list[Row], name: str = "made-up"):
    directory = RunDirectory.create(tmp_path, name)
    directory.append(all_rows)
    directory.append_iterations(
        Iteration(row.cell, row.repeat, 0, row.system, row.workload, rank, 0, 0.0, 0.2, 0.3)
        for row in all_rows
        for rank in range(2)
    )
    directory.write_metadata({"python": "3.11", "seeds": {"experiment": 1}})
    directory.write("experiment.yaml", "name: made-up\n")
    return directory.path


def table(tmp_path, all_rows):
    return data.summary(results.read(run(tmp_path, all_rows)).results)


def test_an_invalid_row_changes_no_average(tmp_path):
    bad = rows("ps", 400.0, verdict="processor idle only 1%")
    wrong = rows("ps", 500.0, verified=False)
    summary = table(tmp_path, rows("ps", 4.0, 5.0, 6.0) + bad + wrong)
    (row,) = summary.to_dict("records")
    assert row["jct_s"] == pytest.approx(5.0)
    assert (row["valid_rows"], row["rows"], row["shown"]) == (3, 5, "valid")
    assert 4.0 <= row["jct_low"] <= 5.0 <= row["jct_high"] <= 6.0


def test_rows_that_are_all_invalid_are_shown_as_such_and_not_compared(tmp_path):
    summary = table(tmp_path, rows("ps", 4.0, verdict="busy") + rows("ring", 1.0))
    shown = summary.set_index("system")["shown"]
    assert shown["ps"] == "not valid"
    assert data.speed_ups(summary)["system"].tolist() == ["ring"]
    assert "only ring has a valid row" in data.headlines(summary, {})[0]


def test_speed_up_is_the_ratio_of_means(tmp_path):
    summary = table(tmp_path, rows("ps", 4.0, 6.0) + rows("ring", 2.0) + rows("atp", 1.0))
    ratios = data.speed_ups(summary).set_index("system")
    assert ratios.loc["atp", "ps"] == pytest.approx(5.0)
    assert ratios.loc["atp", "ring"] == pytest.approx(2.0)
    assert ratios.loc["ring", "ring"] == pytest.approx(1.0)


def test_a_system_that_ignores_ina_is_compared_at_every_deployment(tmp_path):
    ring = rows("ring", 2.0, ina_tors=0)
    atp = rows("atp", 4.0, ina_tors=0) + rows("atp", 1.0, ina_tors=2)
    summary = table(tmp_path, ring + atp)
    ratios = data.speed_ups(summary).set_index(["system", "ina_tors"])["ring"]
    assert ratios["atp", 2] == pytest.approx(2.0)
    assert ratios["atp", 0] == pytest.approx(0.5)


def test_overlapping_intervals_claim_no_difference(tmp_path):
    close = rows("ps", 4.0, 5.0, 6.0) + rows("ring", 4.1, 5.0, 6.1)
    apart = rows("ps", 8.0, 8.1, 8.2) + rows("ring", 4.0, 4.1, 4.2)
    assert "no difference is claimed" in data.headlines(table(tmp_path / "a", close), {})[0]
    assert "no difference" not in data.headlines(table(tmp_path / "b", apart), {})[0]
    few = rows("ps", 8.0) + rows("ring", 4.0)
    assert "no interval" in data.headlines(table(tmp_path / "c", few), {})[0]


def test_the_interval_narrows_with_repeats():
    random = np.random.default_rng(1)
    few, many = random.normal(10, 1, 5), random.normal(10, 1, 500)
    width = [high - low for low, high in map(data.interval, (few, many))]
    assert width[1] < width[0] / 3
    assert data.interval([1.0, 3.0]) == (1.0, 3.0)


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.outside: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name in ("src", "href", "xlink:href") and not (value or "").startswith(
                ("#", "data:")
            ):
                self.outside.append(f"{tag} {name}={value}")


@pytest.mark.parametrize("systems", [("ps", "ring", "atp"), ("atp",), ("unheard-of",)])
def test_the_page_needs_nothing_else_and_says_what_failed(tmp_path, systems):
    good = [row for i, system in enumerate(systems) for row in rows(system, 1.0 + i, 1.1 + i)]
    failed = replace(ROW, system=systems[0], jct_s=None, iteration_s=None, expected_jct_s=2.0,
                     throughput_samples_s=None, algbw_gbit_s=None, exposed_comm_s=None,
                     retransmitted=None, collisions=None, verified=False, verdict="failed",
                     error="rank 3 <died>", repeat=7)  # fmt: skip
    path = build([run(tmp_path, [*good, failed])], tmp_path / "out", LOOKS)
    text = path.read_text()
    page = _Page()
    page.feed(text)
    assert page.outside == []
    assert "rank 3 &lt;died&gt;" in text
    assert "1 failed" in text
    markdown = (tmp_path / "out" / "report.md").read_text()
    assert f"| {LOOKS[systems[0]].title if systems[0] in LOOKS else systems[0]} |" in markdown
    for name in ("jct", "throughput", "closed-form", "timeline"):
        pdf = (tmp_path / "out" / "figures" / f"{name}.pdf").read_bytes()
        assert b"/Type3" not in pdf
        assert (tmp_path / "out" / "figures" / f"{name}.png").stat().st_size > 1000


def test_several_runs_make_one_report(tmp_path):
    first = run(tmp_path, rows("ps", 2.0), "one")
    second = run(tmp_path, rows("ring", 1.0), "two")
    text = build([first, second], tmp_path / "out", LOOKS).read_text()
    assert "Ring is fastest, 2.00 times as fast as PS" in text
    assert "one/" in text and "two/" in text


def test_only_failed_rows_still_make_a_report(tmp_path):
    nothing = {"jct_s": None, "throughput_samples_s": None, "algbw_gbit_s": None}
    failed = replace(ROW, verified=False, verdict="failed", error="no way", **nothing)
    directory = RunDirectory.create(tmp_path, "none")
    directory.append([failed])
    text = build([directory.path], tmp_path / "out", LOOKS).read_text()
    assert "No row is valid" in text and "no way" in text
