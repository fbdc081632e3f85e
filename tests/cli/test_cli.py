"""The verbs: what they say, and the code that they exit with."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from tiny import data, file

from testbed.backends.emulation import cleanup
from testbed.cli import main
from testbed.machine import doctor
from testbed.machine.doctor import Check

EXPERIMENTS = sorted((Path(__file__).parents[2] / "experiments").glob("*.yaml"))


def invoke(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def line_of(path: Path, text: str) -> int:
    return next(
        number for number, line in enumerate(path.read_text().splitlines(), 1) if text in line
    )


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda path: path.name)
def test_the_shipped_experiments_are_valid_and_can_be_set_up(path):
    assert invoke("validate", path).exit_code == 0
    done = invoke("run", "--dry-run", path)
    assert done.exit_code == 0, done.output
    assert done.output.splitlines()


def test_there_is_a_shipped_experiment():
    assert EXPERIMENTS


def test_a_good_file_is_ok(tmp_path):
    done = invoke("validate", file(tmp_path))
    assert done.exit_code == 0
    assert done.output.endswith("tiny: ok, 1 cell\n")


def test_every_problem_of_every_file_is_told_with_its_place(tmp_path):
    (tmp_path / "other").mkdir()
    one = file(
        tmp_path,
        fabric__host_rate="10 parsecs",
        jobs__0__system="rign",
        colour="red",
    )
    two = file(tmp_path / "other", jobs__0__workers=7, fabric__ina=["t0", "t7"])
    done = invoke("validate", one, two)
    assert done.exit_code == 2
    told = done.stderr
    for path, text, words in [
        (one, "host_rate", ["10 parsecs"]),
        (one, "system", ["rign", "ring"]),
        (one, "colour", ["colour"]),
        (two, "t7", ["t7", "t0", "t1"]),
        (two, "workers", ["7", "6 hosts"]),
    ]:
        place = re.escape(f"{path}:{line_of(path, text)}:") + r"\d+: "
        lines = [line for line in told.splitlines() if re.match(place, line)]
        assert any(all(word in line for word in words) for line in lines), (place, told)


def test_yaml_that_cannot_be_read_has_a_place_too(tmp_path):
    path = tmp_path / "broken.yaml"
    path.write_text("schema_version: 1\nname: [\n")
    done = invoke("validate", path)
    assert done.exit_code == 2
    assert re.search(re.escape(str(path)) + r":\d+:\d+: ", done.stderr)


@pytest.mark.parametrize("verb", [("run",), ("run", "--dry-run")], ids="".join)
def test_an_invalid_file_is_not_run(verb, tmp_path):
    path = file(tmp_path, jobs__0__workers=99)
    output = tmp_path / "results"
    done = invoke(*verb, path, "-o", output)
    assert done.exit_code == 2
    assert not output.exists()


def test_a_file_that_is_not_there_is_told():
    done = invoke("validate", "no-such-file.yaml")
    assert done.exit_code == 2
    assert "no-such-file.yaml" in done.output


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"jobs__0__options": {"widow": 4}}, ["widow", "window"]),
        ({"jobs__0__options": {"window": 0}}, ["window", "found 0"]),
        ({"jobs__0__workload": "./no-such.trace"}, ["no-such.trace"]),
    ],
    ids=["unknown option", "bad option", "missing trace"],
)
def test_what_cannot_be_set_up_is_told_before_anything_runs(changes, words, tmp_path):
    done = invoke("run", "--dry-run", file(tmp_path, **changes), "-o", tmp_path / "results")
    assert done.exit_code not in (0, None)
    assert isinstance(done.exception, SystemExit), done.exception
    for word in words:
        assert word in done.output
    assert not (tmp_path / "results").exists()


def test_without_root_nothing_is_run(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    done = invoke("run", file(tmp_path), "-o", tmp_path / "results")
    assert done.exit_code == 1
    assert "not root" in done.output
    assert not (tmp_path / "results").exists()


def test_without_mininet_nothing_is_run(tmp_path, monkeypatch):
    import importlib.util

    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None)
    done = invoke("run", file(tmp_path), "-o", tmp_path / "results")
    assert done.exit_code == 1
    assert "Mininet" in done.output
    assert not (tmp_path / "results").exists()


def test_the_resolved_experiment_is_valid_again(tmp_path):
    from testbed.experiment.load import dump, load

    path = tmp_path / "again.yaml"
    path.write_text(dump(load(file(tmp_path))))
    assert invoke("validate", path).exit_code == 0
    assert (
        yaml.safe_load(path.read_text())["jobs"][0]["workers"]
        == data(tmp_path)["jobs"][0]["workers"]
    )


@pytest.mark.parametrize(("status", "code"), [("ok", 0), ("limited", 0), ("missing", 1)])
def test_the_doctor_fails_for_what_is_missing_only(status, code, monkeypatch):
    check = Check("tc", status, "how it is", "what to do")
    monkeypatch.setattr(doctor, "checks", lambda: [check, Check("ip", "ok", "there")])
    done = invoke("doctor")
    assert done.exit_code == code
    for word in (status, "tc", "how it is", "what to do"):
        assert word in done.output


@pytest.mark.parametrize(
    ("removed", "said"), [([], "nothing to remove"), (["process 7"], "removed process 7")]
)
def test_clean_says_what_it_removed(removed, said, monkeypatch):
    monkeypatch.setattr(cleanup, "clean", lambda: removed)
    done = invoke("clean")
    assert done.exit_code == 0
    assert done.output == said + "\n"


def test_the_schema_is_the_one_that_is_shipped():
    done = invoke("schema")
    assert json.loads(done.output)["type"] == "object"
    assert done.output == (EXPERIMENTS[0].parent / "schema.json").read_text()


def test_help_is_quick_and_loads_nothing_heavy():
    code = (
        "import sys; from testbed.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "sys.exit(bool({'numpy', 'pandas', 'matplotlib', 'mininet'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    for verb in ("run", "report", "validate", "doctor", "clean", "schema"):
        assert f"\n  {verb} " in done.stdout


def test_what_no_plan_can_do_is_found_before_anything_is_built(tmp_path):
    sweep = {"jobs.0.options": [{"deferred": 0}, {"deferred": 2}, {"deferred": 0.5}]}
    path = file(tmp_path, jobs__0__system="osp", sweep=sweep)
    for verb in (["validate"], ["run", "--dry-run"]):
        done = invoke(*verb, path)
        assert done.exit_code != 0
        assert "deferred: found 0" in done.output
        assert "deferred: found 2" in done.output
        assert "Traceback" not in done.output
