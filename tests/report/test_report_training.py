"""What jobs have learned: only rows that count, and only jobs with the same company, together."""

from __future__ import annotations

from dataclasses import replace

from made_up import STYLES, rows, run

from testbed.report import training
from testbed.report.evaluated import evaluated
from testbed.results import Progress, RunDirectory

LEARNT = Progress(
    cell="", repeat=0, job=0, system="ring", workload="resnet50", iteration=3, time_s=0.0,
    metric="accuracy", higher_is_better=True, value=0.9, target_value=0.8,
)  # fmt: skip


def test_only_rows_that_count_have_a_time_to_the_target(tmp_path):
    alone = rows("ring", 1.0, 1.1, cell="alone")
    busy = replace(alone[0], repeat=2, verdict="processor idle only 3%")
    both = [replace(each, job=job) for job in range(2) for each in rows("ring", 5.0, 5.1)]
    path = run(tmp_path, [*alone, busy, *both])
    took = {"alone": {0: 10.0, 1: 12.0, 2: 1000.0}, "ring": {0: 100.0, 1: 102.0}}
    RunDirectory(path).append_progress(
        replace(LEARNT, cell=each.cell, repeat=each.repeat, job=each.job, time_s=at)
        for each in [*alone, busy, *both]
        for at in [took[each.cell][each.repeat]]
    )
    found = evaluated([path], STYLES)
    columns, lines = training.table(found.training, found.titles)
    shown = [
        (row[columns.index("reached")], row[columns.index("time to target (s)")]) for row in lines
    ]
    assert sorted(shown) == [("2 of 2", "101"), ("2 of 2", "101"), ("2 of 2", "11")]
    settings = [row[columns.index("setting")] for row in lines]
    assert len({*settings}) == 3 and sum("beside" in each for each in settings) == 2
