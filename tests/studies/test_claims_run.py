"""Claims from their files to the page, simulated."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from click.testing import CliRunner

from testbed.cli import main
from testbed.experiment.cells import distinct
from testbed.located import Invalid
from testbed.studies.claims import run as claims
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
    sweep: {jobs.0.system: [ps, ring, switchml]}
  - schema_version: 1
    name: emulated
    fabric: {kind: leaf-spine, spines: 1, leaves: 1, hosts_per_leaf: 5, host_rate: 10Gbit, ina: all}
    jobs: [{system: ring, workload: synthetic/1MB, workers: 4, iterations: 1}]
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
    verdict: {reproduced: {at_least: 2}, because: 4 M/B against 1.5 M/B}
  - <<: *first
    name: as-fast-as-a-switch
    measure: {<<: *measure, over: {jobs.0.system: switchml}}
  - name: emulated
    claimed: It runs.
    read: nowhere
    theirs: none
    measure: {experiment: emulated, metric: jct_s, reads: time}
    verdict: {reproduced: {at_least: 0}, because: it takes time}
  - {name: greener, claimed: It is greener., read: x, theirs: x, cannot: Nobody measured power.}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "claims"
    path.mkdir()
    (path / "nobody.yaml").write_text(TEXT)
    monkeypatch.setattr(claims.read, "__defaults__", (path,))
    return path


def test_claims_are_run_judged_and_shown(folder, tmp_path):
    output = tmp_path / "out"
    asked = ["claims", "--simulate-only", "-o", str(output)]
    done = CliRunner().invoke(main, asked)
    assert done.exit_code == 0, done.output
    with (output / "claims.csv").open() as file:
        found = {row["claim"]: row for row in csv.DictReader(file)}
    assert {name: row["verdict"] for name, row in found.items()} == {
        "ring-over-ps": "reproduced",
        "as-fast-as-a-switch": "not reproduced",
        "emulated": "not run",
        "greener": "cannot be tested here",
    }
    assert float(found["ring-over-ps"]["number"]) > 2
    assert f"ring-over-ps: {found['ring-over-ps']['shown']}, reproduced" in done.output
    page = (output / "claims.html").read_text()
    text = (output / "claims.md").read_text()
    for whole in (page, text):
        assert "ina-testbed claims ring-over-ps" in whole
        assert "4 M/B against 1.5 M/B" in whole
        assert "Nobody measured power." in whole
    assert "A ring \\| is faster." in text

    again = CliRunner().invoke(main, asked)
    assert "cells" not in again.stderr
    assert len(list((output / "rings").iterdir())) == 1


def test_names_choose_what_is_run_and_all_is_judged(folder, tmp_path):
    judged = run(read(), tmp_path, ["as-fast-as-a-switch"])
    assert [each.verdict.word for each in judged] == [
        "reproduced", "not reproduced", "not run", "cannot be tested here",
    ]  # fmt: skip
    assert {path.name for path in tmp_path.iterdir()} == {"claims", "rings"}
    done = CliRunner().invoke(main, ["claims", "ring-over-sp", "-o", str(tmp_path)])
    assert done.exit_code == 2
    assert 'did you mean "ring-over-ps"?' in done.output


def test_results_of_other_code_are_told(folder, tmp_path, monkeypatch):
    run(read(), tmp_path, ["ring-over-ps"])
    monkeypatch.setattr(claims, "version", lambda experiment: "another")
    judged = run(read(), tmp_path, ["greener"])
    assert judged[0].verdict.word == "reproduced"
    assert judged[0].basis == "simulated, 1 repeat, by another version of the testbed"


def test_a_name_that_is_taken_twice_is_a_problem(folder):
    (folder / "greener.yaml").write_text(TEXT)
    with pytest.raises(Invalid, match="'greener' of a file or claim twice"):
        read()


def test_every_claims_file_of_the_project_is_valid():
    files = read(folder=claims.FOLDER)
    assert {"atp", "grid", "netreduce", "osp", "ps", "rina", "switchml"} <= {
        file.name for file in files
    }
    names = [name for file in files for name in file.experiments]
    assert len(names) == len(set(names)), "two experiments would share a directory"
    for file in files:
        used = {claim.measure.experiment for claim in file.claims if claim.measure is not None}
        assert used == file.experiments.keys(), f"{file.name}: an experiment answers no claim"
        for experiment in file.experiments.values():
            assert len({cell.experiment.backend for cell in distinct(experiment)}) == 1
