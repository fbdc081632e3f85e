"""Claims from their files to the page, with simulated runs."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import pytest
from verbs import invoke

from testbed.campaign import local, resume
from testbed.experiment.cells import distinct
from testbed.located import Invalid
from testbed.studies.claims import run as claims
from testbed.studies.claims.page import Made
from testbed.studies.claims.run import read, run

TEXT = """\
schema_version: 1
title: Nobody's
source: Nobody, Nowhere
experiments:
  - schema_version: 1
    name: rings
    backend: simulate
    fabric: {kind: leaf-spine, spines: 1, leaves: 1, hosts_per_leaf: 5, host_rate: 10Gbit, ina: all}
    jobs: [{system: ring, workload: synthetic/1MB, workers: 4, iterations: 1}]
    sweep:
      zip:
        jobs.0.system: [ps, ring, switchml]
        jobs.0.options: [{servers: dedicated}, {}, {}]
  - schema_version: 1
    name: packets
    backend: packet
    fabric: {kind: leaf-spine, spines: 1, leaves: 1, hosts_per_leaf: 5, host_rate: 10Gbit, ina: all}
    jobs: [{system: ring, workload: synthetic/1MB, workers: 4, iterations: 1, warmup: 0}]
    emulation: {scale: 1}
    sweep: {jobs.0.workers: [2, 4]}
claims:
  - &first
    name: ring-over-ps
    claimed: A ring | is faster.
    read: nowhere
    theirs: none
    measure: &measure
      experiment: rings
      metric: algbw_gbit_s
      of: {jobs.0.system: ring}
      over: {jobs.0.system: ps}
      reads: rate over rate
    published: {gain: 5.33, because: 8 M/B against 1.5 M/B}
  - <<: *first
    name: as-fast-as-a-switch
    measure: {<<: *measure, over: {jobs.0.system: switchml}}
  - name: grows
    claimed: It takes longer with more workers.
    read: nowhere
    theirs: none
    measure: &grows
      experiment: packets
      metric: jct_s
      along: jobs.0.workers
      number: step
      reads: ratio
    published: {trend: {at_least: 9}, because: it takes time}
    break_even: {varied: jobs.0.workers, means: workers, measure: {<<: *grows, number: mean}}
  - {name: greener, claimed: It is greener., read: x, theirs: x, cannot: Nobody measured power.}
observations:
  - name: seconds
    asked: How long does it take? <2 | 3> & more
    ours: two and four workers
    measure: {experiment: packets, metric: jct_s, reads: mean time}
figures:
  - name: rates
    title: Figure 9
    axis: Gbit/s
    ours: Four workers.
    measure: {experiment: rings, metric: algbw_gbit_s, reads: rate}
    bars:
      - {label: Incast, published: 1.5, of: {jobs.0.system: ps}}
      - {label: Ring, published: 6, of: {jobs.0.system: ring}}
  - name: growth
    title: Figure 10
    axis: s
    ours: Rings.
    measure: {experiment: packets, metric: jct_s, reads: time}
    along: jobs.0.workers
    at: [2, 4]
    across: number of workers
    bars:
      - {label: Ring, published: [0.25, null], of: {}}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "claims"
    path.mkdir()
    (path / "nobody.yaml").write_text(TEXT)
    monkeypatch.setattr(claims.read, "__defaults__", (path, ()))
    return path


def test_claims_are_run_judged_and_shown(folder, tmp_path):
    output = tmp_path / "out"
    asked = ["claims", "-o", str(output)]
    done = invoke(*asked)
    assert done.exit_code == 0, done.output
    with (output / "claims.csv").open() as file:
        found = {row["claim"]: row for row in csv.DictReader(file)}
    assert {name: row["verdict"] for name, row in found.items()} == {
        "ring-over-ps": "reproduced",
        "as-fast-as-a-switch": "not reproduced",
        "grows": "not reproduced",
        "greener": "cannot be tested here",
    }
    assert float(found["ring-over-ps"]["number"]) > 2
    assert found["ring-over-ps"]["published"] == "5.33"
    assert found["grows"]["break_even"].startswith(
        "It would hold at none of the values tried (workers): "
    )
    assert f"ring-over-ps: {found['ring-over-ps']['shown']}, reproduced" in done.output
    page = (output / "claims.html").read_text()
    text = (output / "claims.md").read_text()
    for whole in (page, text):
        assert "ina-testbed claims ring-over-ps" in whole
        assert "8 M/B against 1.5 M/B" in whole
        assert "Nobody measured power." in whole
        assert "It would hold at none of the values tried (workers)" in whole
        assert "What would have to be true" in whole
        assert "Nothing was varied to see where it would hold" in whole
        assert "Our own findings" in whole
        assert "How long does it take?" in whole
        assert "2 experiments at commit" in whole
        assert "claims-rates.svg" in whole
        assert "Incast" in whole
        assert "claims-growth.svg" in whole
        assert "number of workers" in whole
        assert "Nobody&#39;s" in whole or "| Nobody's | 1 | 2 | 1 |" in whole
    assert ">Gbit/s</text>" in (output / "claims-rates.svg").read_text()
    drawn = (output / "claims-growth.svg").read_text()
    assert ">s</text>" in drawn
    assert "Ring at 2: published 0.25" in drawn
    assert "Ring at 4: ours" in drawn
    assert "Ring at 4: published" not in drawn
    assert "| Ring | 4 | – |" in text
    assert "A ring \\| is faster." in text
    assert "| How long does it take? &lt;2 \\| 3> &amp; more |" in text

    again = invoke(*asked)
    assert "cells" not in again.stderr
    assert len(list((output / "rings").iterdir())) == 1


def test_names_choose_what_is_run_and_all_is_judged(folder, tmp_path):
    judged = run(read(), tmp_path, ["as-fast-as-a-switch"]).judged
    assert [each.verdict.word for each in judged] == [
        "reproduced", "not reproduced", "not run", "cannot be tested here",
    ]  # fmt: skip
    assert {path.name for path in tmp_path.iterdir()} == {"claims", "rings"}
    done = invoke("claims", "ring-over-sp", "-o", tmp_path)
    assert done.exit_code == 2
    assert 'did you mean "ring-over-ps"?' in done.output


def test_a_page_is_not_written_beside_another_run(folder, tmp_path, monkeypatch):
    run(read(), tmp_path, ["ring-over-ps"])
    (directory,) = (tmp_path / "rings").iterdir()
    monkeypatch.setattr(resume, "PATIENCE_S", 0.1)
    with resume.held(directory), pytest.raises(resume.Busy, match="another run writes there"):
        run(read(), tmp_path, ["ring-over-ps"])


def test_results_of_other_code_are_told(folder, tmp_path, monkeypatch):
    run(read(), tmp_path, ["ring-over-ps"])
    monkeypatch.setattr(claims, "version", lambda experiment: "another")
    judged = run(read(), tmp_path, ["greener"]).judged
    assert judged[0].verdict.word == "reproduced"
    assert judged[0].basis == "flow simulation, 1 repeat, by another version of the testbed"


def test_results_are_current_if_this_code_would_run_the_same(folder, tmp_path, monkeypatch):
    run(read(), tmp_path, ["ring-over-ps"])
    for module in (claims, resume):
        monkeypatch.setattr(module, "version", lambda experiment: "another")
    monkeypatch.setattr(local.Local, "outcomes", None)  # nothing is run
    judged = run(read(), tmp_path, ["ring-over-ps"]).judged
    assert judged[0].basis == "flow simulation, 1 repeat"


def facts(**changes) -> dict:
    return {
        "started_at": "2026-11-22T10:00:00Z",
        "finished_at": "2026-11-22T10:01:10Z",
        "git_commit": "0123456789abcdef",
        "git_dirty": False,
        "cpu": "A CPU",
        "cores": 2,
        **changes,
    }


def test_a_run_that_was_killed_as_it_began_says_nothing(tmp_path):
    made = Made()
    made.add([tmp_path])
    assert str(made) == "No experiment has been run."


def test_a_page_says_what_made_it():
    later = facts(started_at="2026-11-22T10:01:10Z", finished_at="2026-11-22T10:02:00Z")
    assert str(Made([facts(), later])) == (
        "2 experiments at commit 0123456789, on A CPU (2 cores), from 2026-11-22T10:00:00Z to"
        " 2026-11-22T10:02:00Z; they took 2 min 00 s."
    )
    dirty = str(Made([facts(git_dirty=True)]))
    assert "0123456789 with uncommitted changes" in dirty
    resumed = str(Made([facts(), facts(resumed=[facts(git_commit="fedcba9876543")])]))
    assert "0123456789 and fedcba9876" in resumed
    assert "1 min 10 s without 1 experiment that ran in several parts" in resumed
    assert "1 did not finish" in str(Made([facts(), facts(finished_at=None)]))
    assert str(Made()) == "No experiment has been run."


def test_a_name_that_is_taken_twice_is_a_problem(folder):
    (folder / "greener.yaml").write_text(TEXT)
    with pytest.raises(Invalid, match="'greener' of a file or claim twice"):
        read()


def test_experiments_of_two_files_cannot_share_a_directory(folder):
    (folder / "other.yaml").write_text(TEXT.replace("ring-over-ps", "another"))
    with pytest.raises(Invalid, match="'rings' of an experiment twice"):
        read()


def test_a_file_of_ones_own_has_a_page_of_its_own(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text(TEXT)
    for words in (["mine.yaml"], ["mine.yaml", "ring-over-ps"]):
        done = invoke("claims", *words)
        assert done.exit_code == 0, done.output
        assert "ring-over-ps: " in done.output
        assert "page: results/claims-mine/claims.html" in done.output
    text = Path("results/claims-mine/claims.md").read_text()
    assert "ina-testbed claims mine.yaml ring-over-ps" in text
    for words in (["none.yaml"], ["mine.yaml", "osp-over-bsp"]):
        assert invoke("claims", *words).exit_code == 2


def test_every_claims_file_of_the_project_is_valid():
    files = read(folder=claims.FOLDER)
    assert {"atp", "grid", "netreduce", "osp", "ps", "rina", "switchml"} <= {
        file.name for file in files
    }
    for file in files:
        used = {measure.experiment for each in file.tested for measure in each.measures}
        assert used == file.experiments.keys(), f"{file.name}: an experiment answers no claim"
        for experiment in file.experiments.values():
            backends = {cell.experiment.backend for cell in distinct(experiment)}
            assert len(backends) == 1
            assert "emulate" not in backends, "verdicts are repeatable, and need no root"


def test_without_pytorch_a_claim_on_accuracy_is_not_run(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    (grid,) = (file for file in read() if file.name == "grid")
    judged = {each.claim.name: each for each in run([grid], tmp_path, ["grid-accuracy"]).judged}
    found = judged["grid-accuracy"].verdict
    assert found.word == "not run"
    assert "It cannot be run here: training needs PyTorch" in found.reason
    assert "pip install 'ina-testbed[train]'" in found.reason
    assert not list(tmp_path.iterdir())
