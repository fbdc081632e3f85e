"""Claims files: what they may contain, and how errors in them are reported."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from testbed.located import Invalid
from testbed.studies.claims.load import load
from testbed.studies.claims.measures import Bounds
from testbed.studies.claims.schema import Published

TEXT = """\
schema_version: 1
title: A ring
source: Nobody, Nowhere
experiments:
  - schema_version: 1
    name: rings
    backend: simulate
    fabric: {kind: leaf-spine, spines: 1, leaves: 1, hosts_per_leaf: 9, host_rate: 10Gbit}
    jobs: [{system: ring, workload: synthetic/10MB, workers: 4}]
    sweep:
      product:
        jobs.0.system: [ps, ring, atp]
        jobs.0.workers: [2, 4, 8]
        fabric.ina: [none, all]
        emulation.seed: [1, 2]
      exclude:
        - {jobs.0.system: ring, fabric.ina: all}
        - {jobs.0.system: ps, fabric.ina: all}
claims:
  - name: faster
    claimed: Rings are faster.
    read: nowhere
    theirs: none
    measure:
      experiment: rings
      metric: algbw_gbit_s
      of: {jobs.0.system: atp}
      over: {jobs.0.system: ring, fabric.ina: none}
      along: jobs.0.workers
      number: mean
      reads: rate over rate
    published: {gain: 1.5, because: it is said}
    break_even:
      varied: fabric.ina
      means: INA
      measure:
        experiment: rings
        metric: algbw_gbit_s
        of: {jobs.0.system: atp}
        over: {jobs.0.system: ring, fabric.ina: none}
        reads: rate over rate
observations:
  - name: slower
    asked: Is it slower?
    ours: the same
    measure: {experiment: rings, metric: jct_s, reads: a time}
figures:
  - name: figure-1
    title: Figure 1
    axis: s
    ours: the same
    measure: {experiment: rings, metric: jct_s, reads: a time}
    bars: [{label: ATP, published: 2, of: {jobs.0.system: atp}}]
"""


def loaded(folder: Path, *changes: tuple[str, str]):
    text = TEXT
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = folder / "rings.yaml"
    path.write_text(text)
    return load(path)


def message(folder: Path, *changes: tuple[str, str]) -> str:
    with pytest.raises(Invalid) as caught:
        loaded(folder, *changes)
    return "\n".join(map(str, caught.value.problems)).replace(f"{folder}/", "")


def test_each_cell_is_compared_with_the_one_that_agrees_in_what_both_sweep(tmp_path):
    claims = loaded(tmp_path)
    (claim,) = claims.claims
    points = claim.measure.points(claims.experiments["rings"])
    assert [point.at for point in points] == [2, 2, 4, 4, 8, 8]  # without and with INA
    assert [point.settings["fabric.ina"] for point in points[:2]] == ["none", "all"]
    for point in points:
        assert [own["emulation.seed"] for own, _ in point.pairs] == [1, 2]
        for own, other in point.pairs:
            assert (own["jobs.0.system"], other["jobs.0.system"]) == ("atp", "ring")
            assert other["jobs.0.workers"] == own["jobs.0.workers"]
            assert other["emulation.seed"] == own["emulation.seed"]
            assert other["fabric.ina"] == "none"


def test_claims_need_their_experiments_only(tmp_path):
    claims = loaded(tmp_path)
    for names in ([], ["rings"], ["faster"], ["slower"], ["faster", "another"]):
        assert claims.needed(names) == {"rings"}
    assert claims.needed(["another"]) == set()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("source: Nobody, Nowhere\n", "", "rings.yaml:1:1: source: found no such key"),
        ("claimed:", "claim:", 'rings.yaml:21:5: claims.0.claim: found "claim"'),
        ("hosts_per_leaf: 9", "hosts_per_leaf: 0", "rings.yaml:8:70: fabric.hosts_per_leaf"),
        ("experiment: rings", "experiment: rongs", 'rings.yaml:25:19: claims.0.measure.experiment'),
        ("metric: algbw_gbit_s", "metric: speed", "rings.yaml:26:15: claims.0.measure.metric"),
        ("of: {jobs.0.system: atp}", "of: {jobs.0.system: grid}", "rings.yaml:27:27"),
        ("of: {jobs.0.system: atp}", "of: {jobs.0.sistem: atp}", 'did you mean "jobs.0.system"?'),
        ("system: ring, fabric.ina: none}\n      al", "system: atp}\n      al", "with itself"),
        (", fabric.ina: none}\n      along", "}\n      along", "wanted one"),
        ("along: jobs.0.workers", "along: fabric.ina\n      where: {}", None),
        ("number: mean", "number: slope", "several points at one jobs.0.workers"),
        ("along: jobs.0.workers\n      number: mean", "number: slope", "found no along"),
        ("along: jobs.0.workers\n      number: mean", "along: fabric.ina\n      number: slope",
         "not all numbers"),
        ("gain: 1.5", "trend: {at_least: 1.5, at_most: 1}", "rings.yaml:32:24"),
        ("gain: 1.5", "trend: {}", "found no bound"),
        ("gain: 1.5", "gain: 0.8", "found 0.8, wanted a number above 1"),
        ("gain: 1.5", "gain: [1.6, 1.5]", "wanted a number above 1, or the lowest and"),
        ("gain: 1.5", "gain: 1.5, value: 2", "found 2 of gain, value and trend, wanted one"),
        ("gain: 1.5, because: it is said", "trend: {at_least: 1}",
         "a trend without because, wanted the reason for its bounds; add for example `because:"),
        ("    published: {gain: 1.5, because: it is said}\n", "", "wanted both"),
        ("varied: fabric.ina", "varied: fabric.ino", 'did you mean "fabric.ina"?'),
        ("of: {jobs.0.system: atp}\n        over", "of: {jobs.0.system: no}\n        over",
         "rings.yaml:39:29: claims.0.break_even.measure"),
        ("metric: jct_s, reads", "metric: jct_s, where: {fabric.in: all}, reads",
         "observations.0.measure.where.fabric.in"),
        ("2, of: {jobs.0.system: atp}", "2, of: {jobs.0.system: ESA}",
         "figures.0.bars.0.of.jobs.0.system"),
        ("bars: [{label: ATP, published: 2, of: {jobs.0.system: atp}}]", "bars: []",
         "a list of bars"),
        ("name: slower", "name: faster", "found the name 'faster' again"),
        ("number: mean", "reference: servers-apart", "found both over and reference"),
        ("number: mean", "job: 5",
         "rings.yaml:30:12: claims.0.measure.job: found 5, wanted 0, the only job of rings"),
        ("number: mean", "job: [0, 1]", "rings.yaml:30:16: claims.0.measure.job.1: found 1"),
        ("number: mean", "job: []", "claims.0.measure.job"),
        ("a time}\n    bars", "a time, job: 1}\n    bars",
         "figures.0.measure.job: found 1"),
        ("2, of: {jobs.0.system: atp}", "2, job: 1, of: {jobs.0.system: atp}",
         "figures.0.bars.0.job: found 1"),
    ],
)  # fmt: skip
def test_mistakes_are_told_with_their_place(tmp_path, old, new, said):
    if said is None:
        loaded(tmp_path, (old, new))
    else:
        assert said in message(tmp_path, (old, new))


def test_the_tutorials_forms_of_a_published_figure_load():
    page = Path(__file__).parents[2] / "docs/tutorials/judge-a-paper.md"
    (row,) = re.findall(r"^\| `published` \|(.*)\|$", page.read_text(), re.MULTILINE)
    forms = re.findall(r"`(.*?)`", row)
    assert len(forms) == 3
    for form in forms:
        Published.model_validate(yaml.safe_load(form))


def test_a_file_cannot_hold_its_own_verdict(tmp_path):
    assert 'found "word"' in message(
        tmp_path, ("because: it is said", "because: it is said, word: reproduced")
    )


def test_where_and_the_place_along_a_path_hold_for_both_that_are_compared(tmp_path):
    zipped = """\
      zip:
        jobs.0.system: [atp, atp, ring, ring]
        fabric.slots: [100, 200, 100, 200]
        jobs.0.options: [{window: 9}, {window: 9}, {}, {}]
"""
    before, _, rest = TEXT.partition("      product:")
    after = rest.partition("claims:\n")[2].partition("    break_even:")[0]
    after = after.replace(", fabric.ina: none", "").replace("jobs.0.workers", "fabric.slots")
    path = tmp_path / "zipped.yaml"
    path.write_text(f"{before}{zipped}claims:\n{after}")
    claims = load(path)
    measure, experiment = claims.claims[0].measure, claims.experiments["rings"]
    for found in (measure, measure.at("fabric.slots", 200)):
        for point in found.points(experiment):
            for own, other in point.pairs:
                assert own["fabric.slots"] == other["fabric.slots"] == point.at
    assert [point.at for point in measure.at("fabric.slots", 200).points(experiment)] == [200]


@pytest.mark.parametrize(
    ("published", "reproduced", "direction"),
    [
        ({"gain": 1.3}, (1.2, 1.45), (1.075, 2.2)),
        ({"gain": [1.3, 1.6]}, (1.2, 1.9), (1.075, 3.4)),
        ({"value": 2}, (2 / 1.1, 2.2), None),
        ({"trend": {"at_least": 1}, "because": "so"}, None, (1, None)),
    ],
)
def test_bounds_follow_from_the_published_figure(published, reproduced, direction):
    made = Published.model_validate(published)
    for bounds, ends in ((made.reproduced, reproduced), (made.direction, direction)):
        assert (bounds is None) == (ends is None)
        if bounds is not None:
            assert (bounds.at_least, bounds.at_most) == pytest.approx(ends)


@pytest.mark.parametrize(("value", "held"), [(0.9, False), (1, True), (2, True), (2.1, False)])
def test_ends_are_within_bounds(value, held):
    assert Bounds(at_least=1, at_most=2).hold(value) is held


def test_an_experiment_may_be_a_file_of_its_own(tmp_path):
    before, _, rest = TEXT.partition("  - schema_version")
    own, _, after = rest.partition("claims:\n")
    (tmp_path / "own.yaml").write_text(f"schema_version{own}".replace("\n    ", "\n"))
    inline = loaded(tmp_path)
    (tmp_path / "rings.yaml").write_text(f"{before}  - file: own.yaml\nclaims:\n{after}")
    assert load(tmp_path / "rings.yaml") == inline
    (tmp_path / "own.yaml").write_text("name: nothing\n")
    with pytest.raises(Invalid, match=r"own\.yaml:1:1: fabric: found no such key"):
        load(tmp_path / "rings.yaml")


LINES = """\
  - name: figure-2
    title: Figure 2
    axis: s
    ours: the same
    measure: {experiment: rings, metric: jct_s, where: {fabric.ina: none}, reads: a time}
    along: jobs.0.workers
    at: {two: 2, eight: 8}
    across: workers
    bars:
      - {label: ATP, published: [2, null], of: {jobs.0.system: atp}}
      - {label: ring, of: {jobs.0.system: ring}}
"""
LAST = "    bars: [{label: ATP, published: 2, of: {jobs.0.system: atp}}]\n"


def test_a_figure_has_a_number_for_each_bar_at_each_place(tmp_path):
    drawn = loaded(tmp_path, (LAST, LAST + LINES)).figures[1]
    assert drawn.places == ["two", "eight"]
    assert [bar.published for bar in drawn.bars] == [(2.0, None), None]
    systems = [each.of["jobs.0.system"] for each in drawn.measures]
    assert systems == ["atp", "atp", "ring", "ring"]
    assert [each.where["jobs.0.workers"] for each in drawn.measures] == [2, 8, 2, 8]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("published: [2, null]", "published: [2]", "found 1 published values of ATP, wanted 2"),
        ("published: [2, null]", "published: [2, -1]", "wanted a number above 0, or a list"),
        ("    across: workers\n", "", "found some of along, at and across"),
        ("{two: 2, eight: 8}", "2", "wanted a list of values, or a mapping of labels to them"),
        ("{two: 2, eight: 8}", "[2, 16]", "found 16, wanted a value of jobs.0.workers"),
    ],
)
def test_mistakes_in_a_figure_are_told(tmp_path, old, new, said):
    assert old in LINES
    assert said in message(tmp_path, (LAST, LAST + LINES.replace(old, new)))
