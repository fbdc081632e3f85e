"""The verbs: their output and their exit codes."""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from tiny import data, file
from verbs import invoke

from testbed.backends.emulation import cleanup
from testbed.campaign import evaluation, planning
from testbed.cli import main
from testbed.deployment.experiments import read
from testbed.experiment.cells import distinct
from testbed.machine import doctor
from testbed.machine.doctor import Check
from testbed.placement.deployments import Deployments

EXPERIMENTS = sorted((Path(__file__).parents[2] / "experiments").glob("*.yaml"))


def line_of(path: Path, text: str) -> int:
    return next(
        number for number, line in enumerate(path.read_text().splitlines(), 1) if text in line
    )


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda path: path.name)
def test_the_shipped_experiments_are_valid_and_can_be_set_up(path, tmp_path, monkeypatch):
    shared = Deployments()  # both verbs deploy every cell, and some plans take long
    for module in (planning, evaluation):
        monkeypatch.setattr(module, "Deployments", lambda: shared)
    once = tmp_path / path.name  # repeats only draw other random numbers
    once.write_text(re.sub(r"\brepeats: \d+", "repeats: 1", path.read_text()))
    assert invoke("validate", once).exit_code == 0
    done = invoke("run", "--dry-run", once)
    assert done.exit_code == 0, done.output
    cells = distinct(read(once))
    assert sum("  about " in line for line in done.output.splitlines()) == len(cells)


def test_there_is_a_shipped_experiment():
    assert EXPERIMENTS


def test_a_good_file_is_ok(tmp_path):
    done = invoke("validate", file(tmp_path))
    assert done.exit_code == 0
    assert done.stdout.endswith("tiny: ok, 1 cell\n")


def test_a_good_file_whose_scale_distorts_times_is_ok_with_a_warning(tmp_path):
    path = file(tmp_path, backend="packet", jobs__0__system="ring", emulation={"scale": "1/128"})
    done = invoke("validate", path)
    assert done.exit_code == 0
    assert "tiny: ok, 1 cell\n" in done.output
    assert f"{path}: warning: emulation.scale: found 1/128: the latency" in done.stderr


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


def imported(*arguments):
    """The output of `ina-testbed` in a new interpreter, and the modules that it imports."""
    code = (
        "import sys; from testbed.cli import main\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout, set(done.stderr.split())


HEAVY = {
    "distributed", "jinja2", "matplotlib", "mininet", "networkx", "numpy", "pandas", "rich",
    "scapy", "scipy", "testbed.backends", "testbed.hosts", "testbed.report", "testbed.results",
    "testbed.studies",
}  # fmt: skip


@pytest.mark.parametrize("verb", ["trace", "bench"])
def test_a_list_of_subcommands_cuts_no_summary(verb):
    assert "..." not in invoke(verb, "--help").output.partition("Commands:")[2]


def test_help_loads_nothing_heavy_and_cuts_no_summary():
    said, modules = imported("--help")
    assert not modules & {*HEAVY, "pydantic"}
    for verb in ("run", "report", "validate", "doctor", "clean", "schema", "reference"):
        assert f"\n  {verb} " in said
    assert "..." not in said.partition("Commands:")[2]


def test_root_is_said_in_the_same_way_wherever_it_may_be_needed():
    assert 'Under "Root", a verb\'s help says when' in " ".join(invoke("--help").output.split())
    names = main.list_commands(None)
    asks = {name for name in names if "\n  Root: needed" in invoke(name, "--help").output}
    assert asks == {"run", "train", "ladder", "conform", "setup", "doctor", "calibrate", "clean"}


@pytest.mark.parametrize(
    ("words", "at", "found"),
    [("wat", 1, {"watch"}), ("systems switch", 2, {"switchml"}), ("new s", 2, {"system"})],
)
def test_the_shell_completes_verbs_and_names(words, at, found):
    completing = {"_INA_TESTBED_COMPLETE": "bash_complete", "COMP_CWORD": str(at)}
    done = CliRunner().invoke(
        main,
        prog_name="ina-testbed",
        env={**completing, "COMP_WORDS": f"ina-testbed {words}"},
    )
    assert {line.partition(",")[2] for line in done.output.split()} == found


def processor_time(command):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.alone
@pytest.mark.parametrize(
    ("verb", "libraries", "most"),
    [("--help", "click, pydantic, yaml", 2.0), ("validate", "numpy, pydantic.main, yaml", 2.0)],
)
def test_a_short_verb_takes_little_more_than_its_libraries(verb, libraries, most, tmp_path):
    """As a ratio, because processor time itself depends on what else the machine runs."""
    words = [verb, str(file(tmp_path))] if verb == "validate" else [verb]
    took, loaded = [], []
    for _ in range(3):
        took.append(processor_time([sys.executable, "-m", "testbed.cli", *words]))
        loaded.append(processor_time([sys.executable, "-c", f"import {libraries}"]))
    assert min(took) < most * min(loaded)


@pytest.mark.parametrize("changes", [{}, {"backend": "simulate"}], ids=["emulated", "simulated"])
def test_validate_loads_only_what_plans_need(tmp_path, changes):
    said, modules = imported("validate", file(tmp_path, **changes))
    assert said.endswith("ok, 1 cell\n")
    assert not modules & HEAVY


def test_what_no_plan_can_do_is_found_before_anything_is_built(tmp_path):
    sweep = {"jobs.0.options": [{"deferred": 0}, {"deferred": 2}, {"deferred": 0.5}]}
    path = file(tmp_path, jobs__0__system="osp", sweep=sweep)
    for verb in (["validate"], ["run", "--dry-run"]):
        done = invoke(*verb, path)
        assert done.exit_code != 0
        assert "deferred: found 0" in done.output
        assert "deferred: found 2" in done.output
        assert "Traceback" not in done.output


def test_validate_reports_a_job_that_its_system_cannot_plan(tmp_path):
    path = file(tmp_path, jobs__0__system="grid", jobs__0__options={"rate": "900Gbit"})
    done = invoke("validate", path)
    assert done.exit_code == 2
    assert f"{path}:13:3: grid " in done.output and "no feasible rate" in done.output


def test_a_swept_system_that_cannot_be_deployed_is_placed_at_the_sweep(tmp_path):
    path = file(
        tmp_path, backend="packet", fabric__ina="none", sweep={"jobs.0.system": ["ps", "switchml"]}
    )
    place = path.read_text().splitlines().index("  jobs.0.system:") + 1
    done = invoke("validate", path)
    assert done.exit_code == 2
    assert f"{path}:{place}:3: switchml " in done.output and "not admitted" in done.output


@pytest.mark.parametrize("part", ["product", "zip"])
def test_a_swept_value_that_cannot_be_deployed_is_placed_at_the_sweep(tmp_path, part):
    path = file(
        tmp_path,
        backend="packet",
        fabric__hosts_per_leaf=80,
        jobs__0__system="atp",
        sweep={"exclude": [{"jobs.0.workers": 5}], part: {"jobs.0.workers": [4, 5, 78]}},
    )
    place = path.read_text().splitlines().index("    jobs.0.workers:") + 1
    done = invoke("validate", path)
    assert done.exit_code == 2
    assert f"{path}:{place}:5: atp " in done.output and "workers=78" in done.output


COLUMNS = [
    "experiment", "cell", "repeat", "job", "system", "workload", "topology", "workers", "servers",
    "ina_tors", "tors", "backend", "switch_target", "dilation", "scale", "iterations", "jct_s",
    "verdict", "error",
]  # fmt: skip


def table(columns=COLUMNS, **values):
    """A table of results as CSV, with one row if ``values`` has any. Other numbers are 1, other
    text is "-"."""
    numbers = set(COLUMNS[7:11] + COLUMNS[13:17] + ["repeat", "job"])
    row = {name: "1" if name in numbers else "-" for name in COLUMNS} | values
    lines = [columns, [row[name] for name in columns]] if values else [columns]
    return "".join(f"{','.join(line)}\n" for line in lines)


def run_directory(folder: Path, **files: str | bytes) -> Path:
    """A directory of results with only these files; dots in names are written as underscores."""
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        path = folder / name.replace("_", ".")
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, "found no results.csv"),
        ({"results_csv": b"\xff\xfe\0\n\xff\n"}, "wanted what `run` wrote"),
        ({"results_csv": 'a,b\n"\n'}, "wanted what `run` wrote"),
        (
            {"results_csv": table([name for name in COLUMNS if name != "jct_s"], error="")},
            "no column jct_s",
        ),
        ({"results_csv": table(jct_s="soon")}, "soon"),
        ({"results_csv": table()}, "found no row"),
        ({"results_csv": table(error=""), "run_json": "{"}, "run.json"),
        ({"results_csv": table(error=""), "run_json": "7"}, "run.json"),
    ],
    ids=["empty", "binary", "quote", "column", "number", "rows", "torn metadata", "metadata"],
)
@pytest.mark.parametrize("verb", ["report", "baseline"])
def test_what_are_no_results_is_told(verb, files, said, tmp_path):
    directory = run_directory(tmp_path / "run", **files)
    done = invoke(verb, directory, "-o", tmp_path / "out.json")
    assert done.exit_code == 2, done.output
    assert isinstance(done.exception, SystemExit), done.exception
    assert str(directory) in done.output or verb == "baseline"
    assert said in done.output or (said == "found no row" and "no valid row" in done.output)


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, "found no results.csv"),
        ({"results_csv": table(), "iterations_csv": "a\n"}, "experiment.yaml: found no such file"),
        ({"results_csv": "a,b\n1,2\n", "iterations_csv": "a\n"}, "found no column backend, cell"),
        (
            {"results_csv": b"\xff\xfe\n", "iterations_csv": "a\n"},
            "wanted what `run` wrote",
        ),
    ],
    ids=["empty", "no experiment", "columns", "binary"],
)
def test_a_directory_that_cannot_be_resumed_is_told(files, said, tmp_path):
    directory = run_directory(tmp_path / "run", **files)
    if said.startswith("found no column") or said == "wanted what `run` wrote":
        (directory / "experiment.yaml").write_text(file(tmp_path, backend="simulate").read_text())
    done = invoke("run", "--resume", directory)
    assert done.exit_code == 2, done.output
    assert isinstance(done.exception, SystemExit), done.exception
    assert said in done.output and str(directory) in done.output


def test_a_run_with_a_system_that_is_gone_cannot_be_resumed(tmp_path):
    experiment = file(tmp_path, backend="simulate").read_text()
    directory = run_directory(
        tmp_path / "run",
        results_csv=table(),
        iterations_csv="cell,repeat,job,system,workload\n",
        experiment_yaml=experiment.replace("system: atp", "system: attp"),
    )
    done = invoke("run", "--resume", directory)
    assert done.exit_code == 2
    assert f"{directory}/experiment.yaml:" in done.output
    assert "found 'attp', wanted a known system; did you mean \"atp\"?; there are no" in done.output


@pytest.mark.parametrize("option", [["--retry", "failed"], ["--any-version"]], ids=" ".join)
def test_options_of_resume_need_it(option, tmp_path):
    done = invoke("run", file(tmp_path), "--dry-run", *option)
    assert done.exit_code == 2
    assert f"found {option[0]} alone, wanted it with --resume DIR" in done.output


@pytest.mark.parametrize("verb", ["run", "report", "baseline", "claims", "trace show"])
def test_an_output_that_cannot_be_written_is_told(verb, tmp_path):
    (tmp_path / "taken").write_text("")
    taken = tmp_path / "taken" / "inside.json"
    quick = EXPERIMENTS[0].parents[1] / "reports" / "quick"
    everything: dict[str, list[object]] = {
        "run": [file(tmp_path, backend="simulate")],
        "report": [quick],
        "baseline": [quick],
        "claims": ["ps-colocated-formula"],
        "trace show": ["resnet50"],
    }
    done = invoke(*verb.split(), *everything[verb], "-o", taken)
    assert done.exit_code in (1, 2)
    assert isinstance(done.exception, SystemExit), done.exception
    assert "taken" in done.output


@pytest.mark.parametrize(
    "arguments",
    [
        ["decode", "README.md"],
        ["trace", "show", "no-such-workload"],
        ["trace", "show", "resnet50", "--rate", "fast"],
        ["trace", "export", "resnet50", "out.doc"],
        ["ladder", "tests"],
    ],
    ids=" ".join,
)
def test_bad_input_exits_with_2(arguments, monkeypatch):
    monkeypatch.chdir(EXPERIMENTS[0].parents[1])
    done = invoke(*arguments)
    assert done.exit_code == 2
    assert "Error: " in done.output


def test_claims_without_files_are_an_error(tmp_path, monkeypatch):
    from testbed.studies.claims import run

    monkeypatch.setattr(run.read, "__defaults__", (tmp_path, ()))
    done = invoke("claims", "-o", tmp_path / "page")
    assert done.exit_code == 2
    assert f"{tmp_path}: found no claims file" in done.output
    assert not (tmp_path / "page").exists()
