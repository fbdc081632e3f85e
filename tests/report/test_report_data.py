"""Means, speed-ups, claims and statements about several jobs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from made_up import STYLES, labelled, rows

from testbed.report import brief, canvas, data, lines, ranking, sharing
from testbed.report.statistics import least_p
from testbed.report.tables import number, speed_ups

TITLES = {(name, ""): style.title for name, style in STYLES.items()}


def table(root, all_rows):
    return data.summary(labelled(root, all_rows), STYLES)


def test_an_invalid_row_changes_no_average(tmp_path):
    bad = rows("ps", 400.0, verdict="processor idle only 1%")
    wrong = rows("ps", 500.0, verified=False)
    (row,) = table(tmp_path, rows("ps", 4.0, 5.0, 6.0) + bad + wrong).to_dict("records")
    assert row["jct_s"] == pytest.approx(5.0)
    assert (row["valid_rows"], row["rows"], row["shown"]) == (3, 5, data.VALID)
    assert 4.0 <= row["jct_low"] < 5.0 < row["jct_high"] <= 6.0


def test_rows_that_are_all_invalid_are_shown_as_such_and_not_compared(tmp_path):
    summary = table(tmp_path, rows("ps", 4.0, verdict="busy") + rows("ring", 1.0, 1.1))
    assert summary.set_index("system")["shown"].to_dict() == {"ps": "not valid", "ring": "valid"}
    assert data.speed_ups(summary, STYLES).empty
    assert (
        "only Ring has a valid row"
        in ranking.headlines(ranking.rankings(summary, STYLES), TITLES, summary)[0]
    )


# In older results, simulated rows have False here, not nothing.
@pytest.mark.parametrize("verified", [None, False])
def test_simulated_rows_are_valid_without_sums_and_claimed_without_tests(verified, tmp_path):
    simulated = {"backend": "simulate", "verified": verified}
    summary = table(tmp_path, rows("ring", 4.0, **simulated) + rows("atp", 2.0, **simulated))
    assert set(summary["shown"]) == {data.VALID}
    claims = data.speed_ups(summary, STYLES).set_index("system")
    assert (claims.loc["atp", "ring"], claims.loc["atp", "claim"]) == (2.0, "faster")
    assert np.isnan(claims.loc["atp", "p"])
    assert data.warnings(summary) == []


def test_one_repeat_has_no_interval_and_a_warning(tmp_path):
    summary = table(tmp_path, rows("ps", 4.0))
    assert np.isnan(summary["jct_low"][0]) and np.isnan(summary["jct_high"][0])
    assert "no interval" in " ".join(data.warnings(summary))
    many = table(tmp_path / "many", rows("ps", 4.0, 4.1, 4.2, 4.0, 4.1))
    assert data.warnings(many) == []


def test_speed_up_is_the_ratio_of_means(tmp_path):
    summary = table(tmp_path, rows("ps", 4.0, 6.0) + rows("ring", 2.0) + rows("atp", 1.0))
    ratios = data.speed_ups(summary, STYLES).set_index("system")
    assert ratios.loc["atp", "ps"] == pytest.approx(5.0)
    assert ratios.loc["atp", "ring"] == pytest.approx(2.0)
    assert ratios.loc["ring", "ring"] == pytest.approx(1.0)
    assert ratios.loc["ring", "claim"] == "–"
    assert ratios.loc["atp", "claim"] == "too few repeats"


def test_the_name_of_a_reference_may_have_a_dash(tmp_path):
    styles = STYLES | {"my-own": replace(STYLES["ring"], title="Mine", baseline=0)}
    both = labelled(tmp_path, rows("my-own", 4.0) + rows("atp", 1.0))
    ratios = data.speed_ups(data.summary(both, styles), styles)
    columns, (atp, mine) = speed_ups(ratios, ["my-own"], TITLES | {("my-own", ""): "Mine"})
    assert (mine[0], atp[0], columns[1]) == ("Mine", "ATP", "over Mine")
    assert (mine[1], atp[1]) == ("1", "4")


def test_a_system_that_ignores_ina_is_compared_at_every_deployment(tmp_path):
    ring = rows("ring", 2.0, cell="r", ina_tors=0)
    atp = rows("atp", 4.0, cell="a", ina_tors=0) + rows("atp", 1.0, cell="b", ina_tors=2)
    summary = table(tmp_path, ring + atp)
    ratios = data.speed_ups(summary, STYLES).set_index(["system", "ina_count"])["ring"]
    assert ratios["atp", 2] == pytest.approx(2.0)
    assert ratios["atp", 0] == pytest.approx(0.5)


def test_a_system_that_aggregates_stands_only_where_it_was_run(tmp_path):
    ring = rows("ring", 2.0, cell="r", ina_tors=0) + rows("ring", 2.0, cell="s", ina_tors=2)
    summary = table(tmp_path, ring + rows("atp", 1.0, ina_tors=2))
    ratios = data.speed_ups(summary, STYLES).set_index(["system", "ina_count"])["ring"]
    assert ("atp", 2) in ratios.index and ("atp", 0) not in ratios.index


def test_places_of_ina_are_in_the_order_of_their_numbers(tmp_path):
    times = {4: 2.0, 8: 2.0, 16: 1.0}
    atp = [
        row
        for count, time in times.items()
        for row in rows("atp", *[time] * 5, cell=str(count), ina_tors=count, tors=32)
    ]
    ring = rows("ring", *[3.0] * 5, ina_tors=0, tors=32)
    found = ranking.rankings(table(tmp_path, [*ring, *atp]), STYLES)
    places = [each.place["ina"] for each in found]
    assert places == ["0/32 ToRs", "4/32 ToRs", "8/32 ToRs", "16/32 ToRs"]
    _, lines = brief.brief(found, TITLES)
    assert [(line[2], line[3]) for line in lines] == [
        ("0/32 ToRs", "Ring"), ("4/32 to 8/32 ToRs", "ATP"), ("16/32 ToRs", "ATP"),
    ]  # fmt: skip


def test_workloads_and_backends_are_never_compared_with_one_another(tmp_path):
    other = rows("atp", 1.0, cell="b", workload="bert-base")
    other += rows("atp", 1.0, cell="c", backend="simulate")
    assert data.speed_ups(table(tmp_path, rows("ring", 4.0) + other), STYLES).empty


@pytest.mark.parametrize(
    "ps, ring, said",
    [
        ((8.0, 8.1, 8.2, 8.3), (4.0, 4.1, 4.2, 4.3), "rank test p = 0.029)"),
        ((8.0, 8.0, 8.0, 8.001), (4.0, 4.0, 4.0, 4.0), "rank test p = 0.029)"),
        ((4.0, 5.0, 6.0, 7.0), (4.4, 5.4, 6.4, 7.4), "no test tells PS and Ring apart"),
        ((4.0, 4.01, 4.02, 4.03), (4.01, 4.02, 4.03, 4.04), "PS and Ring tie"),
        # The means are alike, but not the repeats.
        ((4.0, 4.1, 4.2, 4.9), (4.1, 4.2, 4.3, 4.7), "no test tells PS and Ring apart"),
        # Always slower, but mostly by less than the floor.
        ((4.0, 4.0, 4.0, 4.0), (4.001, 4.001, 4.001, 9.0), "no test tells PS and Ring apart"),
        (
            (8.0, 8.1, 8.2),
            (4.0, 4.1, 4.2),
            "3 and 3 repeats are too few for a rank test; 4 of each are enough",
        ),
        ((8.0,), (4.0,), "2.00 times as fast as PS (1 and 1 repeats are too few"),
    ],
)
def test_claims_are_as_strong_as_the_repeats(tmp_path, ps, ring, said):
    summary = table(tmp_path, rows("ps", *ps) + rows("ring", *ring))
    (sentence,) = ranking.headlines(ranking.rankings(summary, STYLES), TITLES, summary)
    assert said in sentence


def test_repeats_of_packets_that_agree_show_that_no_draw_matters(tmp_path):
    ps = rows("ps", 8.0, 8.0, 8.0, 8.001, backend="packet")
    summary = table(tmp_path, ps + rows("ring", 4.0, 4.0, 4.0, 4.0, backend="packet"))
    (sentence,) = ranking.headlines(ranking.rankings(summary, STYLES), TITLES, summary)
    assert "as fast as PS (no random draw matters)" in sentence


def test_who_does_not_wait_for_others_is_not_called_fastest(tmp_path):
    summary = table(tmp_path, rows("ps", 4.0) + rows("ring", 2.0) + rows("asp", 1.0))
    (sentence,) = ranking.headlines(ranking.rankings(summary, STYLES), TITLES, summary)
    assert "Ring is fastest" in sentence and "ASP" not in sentence


@pytest.mark.parametrize(
    ("own", "said"),
    [
        (
            [replace(*rows("ps", 4.0, error="no route", verdict=""), jct_s=None)],
            "No job has finished: no route.",
        ),
        (rows("ps", 4.0, verdict="busy"), "this machine did not keep up"),
        (rows("ps", 4.0, verdict="wrong", backend="packet"), "No row is valid. There is"),
        (rows("ps", 4.0, cell="x") + rows("ring", 5.0, cell="x", job=1), "jobs that ran side by"),
        (rows("asp", 4.0), "do not wait for one another"),
    ],
)
def test_why_nothing_is_compared(tmp_path, own, said):
    found = labelled(tmp_path, own)
    none = ranking.rankings(data.summary(found, STYLES), STYLES)
    assert said in ranking.headlines(none, TITLES, found)[0]


def test_errors_against_the_closed_form(tmp_path):
    near, far = rows("ps", 4.1, cell="a"), rows("ps", 7.8, cell="b", workload="bert-base")
    (row,) = data.errors(table(tmp_path, near + far)).to_dict("records")
    assert row["highest"] == pytest.approx(1.0)
    assert (row["settings"], row["within"]) == (2, 0.5)


def test_jobs_side_by_side(tmp_path):
    shared = {"cell": "x", "switch_packets": 100, "switch_collisions": 25}
    both = rows("atp", 3.0, job=0, **shared) + rows("ring", 4.0, job=1, cell="x")
    alone = rows("atp", 1.0, cell="a") + rows("ring", 4.0, cell="r")
    found = labelled(tmp_path, both + alone)
    summary = data.summary(found, STYLES)
    assert summary.set_index("system")["jct_s"].to_dict() == {"atp": 1.0, "ring": 4.0}
    jobs = sharing.together(found, summary).set_index("system")
    assert jobs["slowdown"].to_dict() == pytest.approx({"atp": 3.0, "ring": 1.0})
    assert jobs.loc["atp", "contention"] == pytest.approx(0.25)
    assert np.isnan(jobs.loc["ring", "contention"])
    # Shares of 1/3 and 1: (4/3)² / (2 · 10/9).
    assert jobs["fairness"].tolist() == pytest.approx([0.8, 0.8])


def test_jobs_without_their_like_alone(tmp_path):
    both = rows("atp", 3.0, job=0, cell="x", algbw_gbit_s=3.0)
    both += rows("ring", 4.0, job=1, cell="x", algbw_gbit_s=1.0)
    found = labelled(tmp_path, both)
    jobs = sharing.together(found, data.summary(found, STYLES))
    assert jobs["slowdown"].isna().all()
    assert set(jobs["fairness_of"]) == {"algbw"}
    assert jobs["fairness"][0] == pytest.approx(16 / 20)


def test_an_invalid_job_keeps_its_whole_cell_out(tmp_path):
    good = rows("atp", 3.0, 3.0, job=0, cell="x") + rows("ring", 4.0, 4.0, job=1, cell="x")
    bad = [*rows("atp", 1.0, 1.0, 90.0, job=0, cell="x")[2:],
           *rows("ring", 1.0, 1.0, 90.0, job=1, cell="x", verdict="busy")[2:]]  # fmt: skip
    found = labelled(tmp_path, good + bad)
    jobs = sharing.together(found, data.summary(found, STYLES)).set_index("system")
    assert jobs["jct_s"].to_dict() == {"atp": 3.0, "ring": 4.0}
    assert jobs["rows"].to_dict() == {"atp": 3, "ring": 3}


def test_who_is_not_told_apart_is_not_called_fastest(tmp_path):
    close = rows("ps", 4.0, 5.0, 6.0, 7.0) + rows("ring", 4.1, 5.1, 6.1, 6.9)
    summary = table(tmp_path, close)
    (sentence,) = ranking.headlines(ranking.rankings(summary, STYLES), TITLES, summary)
    assert "no test tells PS and Ring apart" in sentence
    assert "fastest" not in sentence


def test_identical_plans_tie_whatever_was_measured(tmp_path):
    same = rows("ps", 8.0, 8.1, 8.2, 8.3, plan="a") + rows("ring", 4.0, 4.1, 4.2, 4.3, plan="a")
    summary = table(tmp_path, same + rows("atp", 9.0, 9.1, 9.2, 9.3, plan="b"))
    (sentence,) = ranking.headlines(ranking.rankings(summary, STYLES), TITLES, summary)
    assert "Ring and PS tie" in sentence
    claims = data.speed_ups(summary, STYLES).set_index("system")
    assert claims.loc["ps", "claim"] == "tie: the same plan"
    assert claims.loc["atp", "claim"] == "slower"


def test_many_comparisons_need_more_repeats(tmp_path):
    """One test of four repeats gives p = 0.029 at best; two such tests prove nothing at 5 %."""
    two = rows("ps", 8.0, 8.1, 8.2, 8.3) + rows("ring", 4.0, 4.1, 4.2, 4.3)
    (alone,) = ranking.rankings(table(tmp_path / "two", two), STYLES)
    assert alone.next is not None and alone.next.p == pytest.approx(2 / 70)
    three = two + rows("atp", 9.0, 9.1, 9.2, 9.3)
    (more,) = ranking.rankings(table(tmp_path / "three", three), STYLES)
    assert [each.sure for each in more.behind] == ["too few repeats (4 and 4, 5 are enough)"] * 2
    six = [time + repeat / 10 for time in (8.0, 4.0, 9.0) for repeat in range(6)]
    enough = rows("ps", *six[:6]) + rows("ring", *six[6:12]) + rows("atp", *six[12:])
    (told,) = ranking.rankings(table(tmp_path / "six", enough), STYLES)
    assert [each.p for each in told.behind] == pytest.approx([4 / 924, 4 / 924])


def test_too_few_repeats_name_no_winner_if_the_interval_has_1(tmp_path):
    near = rows("ring", 4.0, 4.6, 5.2) + rows("atp", 3.5, 4.4, 5.1)
    summary = table(tmp_path, near)
    (ranking_,) = ranking.rankings(summary, STYLES)
    (behind,) = ranking_.behind
    assert not behind.tested and behind.interval[0] <= 1 < behind.ratio
    assert ranking.fastest(ranking_, lambda row: row["system"]) == "atp, or perhaps ring"
    (sentence,) = ranking.headlines([ranking_], TITLES, summary)
    assert "no test tells ATP and Ring apart" in sentence


def test_too_few_repeats_have_no_p(tmp_path):
    few = table(tmp_path, rows("ring", 4.0, 4.1, 4.2) + rows("atp", 2.0, 2.1, 2.2))
    ratios = data.speed_ups(few, STYLES).set_index("system")
    assert ratios.loc["atp", "claim"] == "too few repeats"
    assert np.isnan(ratios.loc["atp", "p"])


def test_all_panels_of_a_figure_have_one_scale(tmp_path):
    wide, narrow = rows("ps", 40.0, cell="a"), rows("ps", 4.0, cell="b", workload="bert-base")
    wide += rows("ring", 4.0, cell="c", ina_tors=0) + rows("atp", 2.0, cell="d", ina_tors=0)
    narrow += rows("ring", 4.0, cell="e", ina_tors=0, workload="bert-base")
    panels = lines.deployments(table(tmp_path, wide + narrow))
    assert len(panels) == 2
    with canvas.paper():
        series = {(n, ""): s for n, s in STYLES.items()}
        figure = lines.against_ina(panels, series, "jct", "JCT (s)")
        figure.draw_without_rendering()
        labels = [axes.yaxis.label.get_window_extent() for axes in figure.axes]
    assert {axes.get_yscale() for axes in figure.axes} == {"log"}
    assert len({axes.get_ylim() for axes in figure.axes}) == 1
    assert {axes.get_ylabel() for axes in figure.axes} == {"JCT (s), log scale"}
    assert min(label.x0 for label in labels) >= 0  # inside the figure


def test_no_marker_hides_another(tmp_path):
    same = [row for system in ("ps", "ring", "atp") for row in rows(system, 4.0, cell=system)]
    none = [
        row
        for system in ("ps", "ring", "atp")
        for row in rows(system, 8.0, cell=f"{system}0", ina_tors=0)
    ]
    panels = lines.deployments(table(tmp_path, same + none))
    with canvas.paper():
        series = {(n, ""): s for n, s in STYLES.items()}
        figure = lines.against_ina(panels, series, "jct", "JCT (s)")
        figure.draw_without_rendering()
        (axes,) = figure.axes
        markers = [line for line in axes.lines if "words" in (line.get_gid() or "")]
        places = [axes.transData.transform(line.get_xydata()[0]) / figure.dpi for line in markers]
    assert len(places) == 6
    for place, one in enumerate(places):
        for other in places[:place]:
            assert np.hypot(*(one - other)) > 4.5 / 72, "inches, less than a marker's width"


def test_packets_are_shown_beside_the_emulator(tmp_path):
    emulated = rows("ps", 4.0, 4.4) + rows("ring", 2.0, verdict="busy") + rows("atp", 1.0)
    packets = rows("ps", 4.41, backend="packet") + rows("ring", 1.0, backend="packet")
    other = rows("atp", 1.0, backend="packet", workload="bert-base")
    found = data.beside(table(tmp_path, emulated + packets + other)).set_index("system")
    assert set(found.index) == {"ps", "ring"}
    assert found.loc["ps", "difference"] == pytest.approx(0.05)
    assert found["is_valid"].to_dict() == {"ps": True, "ring": False}


def test_the_order_of_rows_makes_no_comparison_of_its_own(tmp_path):
    """A system without aggregation at two places of INA is one sample: it is tested once."""
    ring, atp = [4.0, 4.1, 4.2, 4.3], [2.0, 2.1, 2.2, 2.3]
    made = [
        each
        for ina, order in ((1, ring), (2, ring[::-1]))
        for system, times in (("ring", order), ("atp", atp))
        for each in rows(system, *times, ina_tors=ina, cell=f"{system}-{ina}")
    ]
    found = ranking.rankings(table(tmp_path, made), STYLES)
    assert [behind.p for each in found for behind in each.behind] == [least_p(4, 4)] * 2


@pytest.mark.parametrize(
    ("value", "text"), [(0.12345, "0.123"), (999.4, "999"), (999.5, "1,000"), (-999.7, "-1,000")]
)
def test_numbers_have_three_digits_and_no_exponent_below_a_million(value, text):
    assert number(value) == text
