"""Claims files: what they may say, and what is said of mistakes in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.located import Invalid
from testbed.studies.claims.measures import Bounds
from testbed.studies.claims.schema import load

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
    verdict: {reproduced: {at_least: 1.5}, because: it is said}
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
    assert [point.at for point in points] == [2, 2, 4, 4, 8, 8]  # without INA and with
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
    for names in ([], ["rings"], ["faster"], ["faster", "another"]):
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
        ("{at_least: 1.5}", "{at_least: 1.5, at_most: 1}", "rings.yaml:32:27"),
        ("{at_least: 1.5}", "{}", "found no bound"),
        ("    verdict: {reproduced: {at_least: 1.5}, because: it is said}\n", "", "wanted both"),
        ("over:", "reference: servers-apart\n      over:", "found both over and reference"),
    ],
)  # fmt: skip
def test_mistakes_are_told_with_their_place(tmp_path, old, new, said):
    if said is None:
        loaded(tmp_path, (old, new))
    else:
        assert said in message(tmp_path, (old, new))


def test_a_file_cannot_hold_its_own_verdict(tmp_path):
    assert 'found "word"' in message(
        tmp_path, ("because: it is said", "because: it is said, word: reproduced")
    )


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
