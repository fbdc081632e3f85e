"""From rows to verdicts."""

from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np
import pandas as pd
import pytest
from pandas.core.groupby import DataFrameGroupBy
from scipy.stats import bootstrap

from testbed.experiment.load import loads
from testbed.results import Row
from testbed.studies.claims.schema import (
    CANNOT,
    DIRECTION,
    MORE,
    NOT,
    NOT_RUN,
    REPRODUCED,
    UNDECIDED,
    BreakEven,
    Claim,
    Published,
)
from testbed.studies.claims.verdict import crossing, judge, summary, verdict_of

EXPERIMENT = loads(
    """\
schema_version: 1
name: rings
backend: simulate
fabric: {kind: leaf-spine, spines: 1, leaves: 1, hosts_per_leaf: 9, host_rate: 10Gbit}
jobs: [{system: ring, workload: synthetic/10MB, workers: 4}]
sweep:
  jobs.0.system: [ps, ring]
  jobs.0.workers: [2, 4, 8]
"""
)


def claim(number: str = "mean", published: dict | None = None, **measure) -> Claim:
    return Claim.model_validate(
        {
            "name": "a-claim", "claimed": "more", "read": "nowhere", "theirs": "none",
            "measure": {
                "experiment": "rings", "metric": "jct_s", "number": number, "reads": "a time",
                "of": {"jobs.0.system": "ps"}, "along": "jobs.0.workers", **measure,
            },
            "published": {"because": "so it is", **(published or {"gain": 1.5})},
            "explained": {"not reproduced": "it was cold"},
        }
    )  # fmt: skip


def rows(times: dict[tuple[str, int], list[float]], **columns) -> pd.DataFrame:
    """A row for each system, number of workers and repeat."""
    return pd.DataFrame(
        asdict(
            Row(
                "rings", "cell", repeat, 0, system, "synthetic/10MB", "one", workers, 1, 0, 1,
                "emulate", "", 1.0, 1.0, 3, jct_s=time, expected_jct_s=2.0,
                algbw_gbit_s=8 / (time or 1), verified=True, verdict="valid",
                settings=json.dumps({"jobs.0.system": system, "jobs.0.workers": workers}),
            )
        )
        | columns
        for (system, workers), own in times.items()
        for repeat, time in enumerate(own)
    )  # fmt: skip


def both(ps: float, ring: float, repeats: int = 1, noise: float = 0.0) -> dict:
    draw = np.random.default_rng(1)
    return {
        (system, workers): list(time * (1 + noise * draw.uniform(-1, 1, repeats)))
        for system, time in (("ps", ps), ("ring", ring))
        for workers in (2, 4, 8)
    }


OVER = {"over": {"jobs.0.system": "ring"}}
SIDES = (("of", "ps"), ("over", "ring"))


def test_a_ratio_of_matched_cells_makes_the_verdict():
    found = judge(claim(**OVER), EXPERIMENT, rows(both(3, 2)))
    assert (found.word, found.number.value, found.number.low) == (REPRODUCED, 1.5, None)
    assert found.number.points == (("workers=2", 1.5), ("workers=4", 1.5), ("workers=8", 1.5))
    assert "from 1.333 to 1.75" in found.reason
    assert found.reason.endswith("so it is")
    worse = judge(claim(**OVER), EXPERIMENT, rows(both(2, 2)))
    assert worse.word == NOT
    assert worse.reason.endswith("it was cold")


@pytest.mark.parametrize(
    ("published", "values", "word"),
    [
        ({"gain": 1.5}, [1.4, 1.35, 1.7], REPRODUCED),
        ({"gain": 1.5}, [1.4, 1.3, 1.7], DIRECTION),  # an end of the interval
        ({"gain": 1.5}, [1.8], DIRECTION),
        ({"gain": 1.5}, [1.1], NOT),
        ({"gain": 1.5}, [1.1, 1.05, 1.12], NOT),
        ({"gain": 1.5}, [1.1, 1.05, 4], UNDECIDED),
        ({"gain": 1.5}, [8, 1.6, 20], UNDECIDED),
        ({"gain": 1.5}, [4.96], MORE),
        ({"gain": 1.5}, [3.4, 3.1, 3.6], MORE),
        ({"gain": 1.5}, [2.9, 2.5, 3.3], UNDECIDED),  # 3 is the most for the direction
        ({"value": 1}, [1.09], REPRODUCED),
        ({"value": 1}, [1.62], NOT),
        ({"value": 1}, [0.6], NOT),
        ({"value": 1}, [0.85, 0.8, 0.92], UNDECIDED),
        ({"trend": {"at_least": 1}, "because": "so"}, [1.2], DIRECTION),
        ({"trend": {"at_least": 1}, "because": "so"}, [1.2, 0.9, 1.4], UNDECIDED),
        ({"trend": {"at_least": 1}, "because": "so"}, [0.8, 0.7, 0.9], NOT),
    ],
)
def test_verdicts_are_bounded_on_both_sides(published, values, word):
    assert verdict_of(Published.model_validate(published), values) == word


def test_the_whole_interval_must_be_within_the_bounds():
    steady = judge(claim(**OVER), EXPERIMENT, rows(both(3, 2, 5, 0.01)))
    assert steady.word == REPRODUCED
    assert 1.4 < steady.number.low < steady.number.value < steady.number.high < 1.6
    shaky = judge(claim(**OVER), EXPERIMENT, rows(both(3, 2, 5, 0.6)))
    assert 1.4 < shaky.number.value < 1.75 < shaky.number.high
    assert shaky.word == DIRECTION


def test_intervals_are_percentiles_of_the_resampled_ratio():
    times = both(3, 2, 6, 0.2)
    four = {side: {"jobs.0.system": system, "jobs.0.workers": 4} for side, system in SIDES}
    number = judge(claim(along=None, **four), EXPERIMENT, rows(times)).number
    sides = [times[system, 4] for _, system in SIDES]
    expected = bootstrap(
        sides,
        lambda of, over, axis: of.mean(axis=axis) / over.mean(axis=axis),
        method="percentile",
        random_state=1,
    ).confidence_interval
    wide = expected.high - expected.low
    assert (number.low, number.high) == pytest.approx(tuple(expected), abs=0.1 * wide)


@pytest.mark.parametrize("beside", [OVER, {}])
def test_repeats_of_other_cells_are_resampled_on_their_own(beside):
    # Cells with the same values differ in each resampling, and their ratio is not always 1.
    values = [1.0, 2.0, 3.0, 4.0]
    times = {(system, workers): values for system in ("ps", "ring") for workers in (2, 4, 8)}
    number = judge(claim("mean" if beside else "spread", **beside), EXPERIMENT, rows(times)).number
    assert number.value == 1
    assert number.high > 1.2


@pytest.mark.parametrize(
    ("times", "where"),
    [
        ((2, 3, 3), "from 4 to 8"),
        ((3, 3, 2), "from 2 to 4"),
        ((2, 3, 2), "at 4"),
        ((3, 2, 3), "at 2, 8"),
        ((2, 2, 2), ""),
        ((3, 3, 3), "everywhere from 2 to 8"),
        ((3, 3, 9), "from 2 to 4"),  # more than published is another finding
    ],
)
def test_a_break_even_says_where_a_claim_would_hold(times, where):
    measured = {("ps", workers): [time] for workers, time in zip((2, 4, 8), times, strict=True)}
    measured |= {("ring", workers): [2.0] for workers in (2, 4, 8)}
    asked = claim(**OVER)
    even = BreakEven(varied="jobs.0.workers", means="workers", measure=asked.measure)
    found = crossing(even, asked.published, EXPERIMENT, rows(measured))
    assert found.where == where
    assert [(value, number.value) for value, number in found.numbers] == [
        (str(workers), time / 2) for workers, time in zip((2, 4, 8), times, strict=True)
    ]


def test_a_break_even_without_results_says_so():
    even = BreakEven(varied="jobs.0.workers", means="workers", measure=claim(**OVER).measure)
    found = crossing(even, claim().published, EXPERIMENT, "It was not requested.")
    assert found.where == ""
    assert {number for _, number in found.numbers} == {"It was not requested."}


def test_a_break_even_writes_mappings_in_words():
    experiment = loads(
        """\
schema_version: 1
name: slow
backend: simulate
fabric: {kind: leaf-spine, spines: 1, leaves: 1, hosts_per_leaf: 9, host_rate: 10Gbit}
jobs: [{system: ring, workload: resnet50, workers: 4}]
sweep:
  jobs.0.compute: [{jitter: 0.1}, {stragglers: {workers: 1, slowdown: 2, probability: 0.1}}]
"""
    )
    even = BreakEven(varied="jobs.0.compute", means="workers", measure=claim(**OVER).measure)
    found = crossing(even, claim().published, experiment, "It was not requested.")
    assert [text for text, _ in found.numbers] == [
        "jitter 0.1",
        "stragglers (workers 1, slowdown 2, probability 0.1)",
    ]


def test_without_valid_rows_of_every_point_nothing_is_judged():
    table = rows(both(3, 2))
    table.loc[table["workers"] == 4, "verdict"] = "processor was busy"
    found = judge(claim(**OVER), EXPERIMENT, table)
    assert (found.word, found.number) == (CANNOT, None)
    assert "processor was busy" in found.reason
    assert judge(claim(**OVER), EXPERIMENT, table[:1]).word == NOT_RUN
    assert judge(claim(**OVER), EXPERIMENT, "was not asked").word == NOT_RUN


def test_invalid_repeats_do_not_count():
    table = rows(both(3, 2, 4))
    table.loc[table["repeat"] == 0, "jct_s"] = 100.0
    table.loc[table["repeat"] == 0, "verified"] = False
    found = judge(claim(**OVER), EXPERIMENT, table)
    assert found.number.value == pytest.approx(1.5)
    assert "3 repeats" in found.number.basis


def test_a_repeat_with_an_invalid_job_does_not_count():
    table = rows(both(3, 2, 4))
    other = table.assign(job=1, jct_s=10.0, verified=table["repeat"] != 0)
    found = judge(claim(**OVER), EXPERIMENT, pd.concat([table, other]))
    assert found.number.value == pytest.approx(13 / 12)
    assert "3 repeats" in found.number.basis


@pytest.mark.parametrize(
    ("job", "expected"),
    [(None, 11.5 / 10.5), (0, 3 / 2), (2, 1), ([0, 2], 8 / 7), ([2], 1)],
)
def test_the_jobs_that_count(job, expected):
    table = rows(both(3, 2))
    every = pd.concat([table, table.assign(job=1, jct_s=3.5), table.assign(job=2, jct_s=5.0)])
    found = judge(claim(**OVER, job=job), EXPERIMENT, every)
    assert found.number.value == pytest.approx(expected)


def test_without_the_target_in_every_repeat_there_is_no_time_to_it():
    many = rows(both(3, 2, repeats=3))
    learnt = claim(metric="target_s", **OVER)
    assert judge(learnt, EXPERIMENT, many.assign(target_s=many["jct_s"])).number.value == 1.5
    many["target_s"] = many["jct_s"].where(many["repeat"] != 1)
    found = judge(learnt, EXPERIMENT, many)
    assert (found.word, found.number) == (CANNOT, None)
    assert "No target_s in 1 of 3 repeats of " in found.reason


def test_formulas():
    # One server's 10 Gbit/s for 2, 4 and 8 workers, compared with the measured 4 Gbit/s.
    ps = claim("most", reference="servers-apart", metric="algbw_gbit_s")
    assert judge(ps, EXPERIMENT, rows(both(2, 2))).number.value == pytest.approx(4 / (10 / 8))
    # A server on each worker's machine: N/(2(N-1)) of the rate, lowest with the most workers.
    ring = claim("least", reference="servers-colocated", metric="algbw_gbit_s")
    assert judge(ring, EXPERIMENT, rows(both(2, 2))).number.value == pytest.approx(4 / 10)


def test_seeds_are_repeats_of_one_point():
    experiment = EXPERIMENT.model_validate(
        EXPERIMENT.data()
        | {"sweep": {"jobs.0.system": ["ps", "ring"], "emulation.seed": [1, 2, 3, 4]}}
    )
    table = pd.concat(
        rows({(system, 4): [time * seed]}).assign(
            settings=json.dumps({"jobs.0.system": system, "emulation.seed": seed})
        )
        for seed in (1, 2, 3, 4)
        for system, time in (("ps", 3.0), ("ring", 2.0))
    )
    found = judge(claim(along=None, **OVER), experiment, table)
    number = found.number
    assert number is not None
    assert len(number.points) == 1
    # Values of the same seed are compared, so that differences between seeds cancel.
    assert (number.value, number.low, number.high) == pytest.approx((1.5, 1.5, 1.5))


def test_parts_of_hardly_any_change_mean_nothing():
    times = {("ps", 2): [2.0], ("ps", 4): [3.0], ("ps", 8): [2.05]}
    found = judge(claim("midway"), EXPERIMENT, rows(times))
    assert (found.word, found.number) == (CANNOT, None)
    assert "+2.5%" in found.reason


@pytest.mark.parametrize("number", ["mean", "most", "least"])
def test_a_number_may_be_0(number):
    found = judge(claim(number), EXPERIMENT, rows(both(0, 2, repeats=3)))
    assert (found.number.value, found.number.low, found.number.high) == (0, 0, 0)


@pytest.mark.parametrize("repeats", [1, 3])
def test_nothing_is_divided_by_0(repeats):
    found = judge(claim(**OVER), EXPERIMENT, rows(both(3, 0, repeats)))
    assert (found.word, found.number) == (CANNOT, None)
    assert found.reason == "No ratio: what it divides by is 0, or too close to 0."
    # The mean of all repeats is above 0, but that of some drawn with replacement is 0.
    some = both(3, 2, 3) | {("ring", 4): [0.0, 0.0, 2.0]}
    assert judge(claim(**OVER), EXPERIMENT, rows(some)).word == CANNOT


@pytest.mark.parametrize(
    ("number", "values"),
    [
        ("slope", [0.0, 1.0, 2.0]),
        ("step", [1.0, 0.0, 2.0]),
        ("spread", [1.0, 0.0, 2.0]),
        ("midway", [0.0, 1.0, 0.0]),
    ],
)
def test_points_of_0_have_no_number_that_divides_by_them(number, values):
    times = {("ps", workers): [time] for workers, time in zip((2, 4, 8), values, strict=True)}
    found = judge(claim(number), EXPERIMENT, rows(times))
    assert (found.word, found.number) == (CANNOT, None)
    assert f"No {number} of the points {values[0]:g}, {values[1]:g}, {values[2]:g}" in found.reason


def test_a_change_from_0_has_a_half():
    times = {("ps", 2): [0.0], ("ps", 4): [1.0], ("ps", 8): [4.0]}
    assert judge(claim("midway"), EXPERIMENT, rows(times)).number.value == 0.25


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("mean", [1, 2, 6], 3),
        ("most", [1, 6, 2], 6),
        ("least", [2, 1, 6], 1),
        ("spread", [2, 8, 4], 4),
        ("slope", [3, 12, 48], 2),  # proportional to the squares of 2, 4, 8
        ("midway", [10, 4, 2], 0.75),
        ("step", [2, 6, 3], 0.5),
    ],
)
def test_summaries(name, values, expected):
    assert summary(name, [2, 4, 8], values) == pytest.approx(expected)


def test_only_rows_of_the_cells_of_a_measure_are_copied(monkeypatch):
    """A table is judged once for each measure, and a measure needs few of its cells."""
    monkeypatch.setattr(DataFrameGroupBy, "__iter__", None)
    assert judge(claim(**OVER), EXPERIMENT, rows(both(3, 2))).number.value == 1.5
