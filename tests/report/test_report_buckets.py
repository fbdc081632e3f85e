"""The timeline of buckets is read from what `run --timeline` wrote, and drawn by rank and
bucket."""

from __future__ import annotations

import json
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
from made_up import STYLES, labelled, rows

from testbed.report import buckets


def named(kind: str, name: str, tid: int = 0) -> dict[str, object]:
    return {"ph": "M", "name": kind, "pid": 1, "tid": tid, "args": {"name": name}}


EVENTS = [
    named("process_name", "job 0: atp"),
    named("thread_name", "rank 0 (h3) iterations", 0),
    named("thread_name", "rank 0 (h3) compute", 1),
    {"ph": "X", "name": "iteration 0", "pid": 1, "tid": 0, "ts": 0.0, "dur": 900.0},
    {"ph": "X", "name": "compute", "pid": 1, "tid": 1, "ts": 0.0, "dur": 500.0},
    {"ph": "b", "name": "unit 4 of iteration 0", "cat": "rank 0", "id": 7, "pid": 1, "ts": 300.0},
    {"ph": "e", "name": "unit 4 of iteration 0", "cat": "rank 0", "id": 7, "pid": 1, "ts": 800.0},
]
TIMELINE = {"otherData": {"clock": "simulated", "scale": 0.5}, "traceEvents": EVENTS}


def test_times_are_those_of_the_real_cluster(tmp_path):
    path = tmp_path / "timeline.json"
    path.write_text(json.dumps(TIMELINE))
    rank = buckets.read(path)[0][0]
    assert rank.host == "h3"
    assert rank.units == {(4, 0): pytest.approx((600e-6, 1600e-6))}
    assert rank.spans["compute"] == [pytest.approx((0.0, 1e-3))]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"traceEvents": 3, "otherData": {"scale": 1}}',
        '{"traceEvents": [{"ph": "b"}], "otherData": {"scale": 0}}',
    ],
)
def test_a_damaged_timeline_is_left_out(tmp_path, text):
    table = labelled(tmp_path, rows("atp", 1.0))
    logs = Path(table["run"][0]) / "logs" / "atp-0"
    logs.mkdir()
    (logs / "timeline.json").write_text(text)
    assert buckets.recorded(table) == []


def test_each_bucket_has_a_bar_and_says_when_it_was_on_its_way(tmp_path):
    table = labelled(tmp_path, rows("atp", 1.0))
    logs = Path(table["run"][0]) / "logs" / "atp-0"
    logs.mkdir()
    (logs / "timeline.json").write_text(json.dumps(TIMELINE))
    (found,) = buckets.recorded(table)
    figure = buckets.drawn(found, {("atp", ""): STYLES["atp"]})
    said = [json.loads(each.get_gid())["words"] for each in figure.axes[0].collections]
    assert "rank 0, bucket 4: 0.6 ms to 1.6 ms" in said
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["rank 0 (h3)"]
    plt.close("all")
