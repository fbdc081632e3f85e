"""After Ctrl-C and on a full disk each verb says what it leaves, and only what is true for it."""

from __future__ import annotations

import errno
import os
import re
import runpy
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import tiny
import yaml
from patience import PATIENCE_S, awaited
from verbs import invoke

from testbed import extensions
from testbed.switches.compile import PROGRAMS
from testbed.wire import VALUES

RESUMED = "finished rows are kept, and run --resume DIR continues"
RUNS = "testbed.campaign.evaluation._fill"
CALLS = [
    ("run x.yaml -o out", RUNS, f"; {RESUMED}"),
    ("run x.yaml -o out", "testbed.campaign.evaluation.plan", ""),
    ("run x.yaml -o out", "testbed.campaign.local.Local.prepare", ""),
    ("run x.yaml --dry-run", "testbed.cli.run.announce", ""),
    ("train learns.yaml -o out", RUNS, f"; {RESUMED}"),
    ("ladder x.yaml -o out", RUNS, f"; {RESUMED}; then ladder DIR prints the errors"),
    (
        "claims ps-incast -o out",
        RUNS,
        "; finished rows are kept, and the same command continues",
    ),
    ("bench all-reduce -b 1K -e 1K", "testbed.studies.bench.run", ""),
    (
        "bench all-reduce -b 1K -e 1K -o b.csv",
        "testbed.studies.bench.run",
        "; b.csv is not written",
    ),
    ("explain x.yaml", "testbed.studies.explain.study.study", ""),
    ("validate x.yaml", "testbed.cli.validate.experiments", ""),
    ("place x.yaml --budget 1", "testbed.placement.advice.advice", ""),
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("testbed.training.learning.prepare", lambda deployments: None)  # no PyTorch
    data = tiny.data(tmp_path, backend="packet")
    (tmp_path / "x.yaml").write_text(yaml.safe_dump(data))
    data["jobs"][0] |= {"training": {"rate": 0.05}, "workload": "training/digits-cnn"}
    (tmp_path / "learns.yaml").write_text(yaml.safe_dump(data))
    return tmp_path


def raising(error):
    def function(*arguments, **options):
        raise error

    return function


def last_line(done):
    """The last line of stderr, with DIR for a directory of results."""
    return re.sub(r"\bout/tiny/[\d-]+", "DIR", done.stderr.splitlines()[-1])


@pytest.mark.parametrize(("call", "at", "said"), CALLS)
def test_an_interruption(folder, monkeypatch, call, at, said):
    monkeypatch.setattr(at, raising(KeyboardInterrupt))
    done = invoke(*call.split())
    assert (done.exit_code, last_line(done)) == (130, f"interrupted{said}")


@pytest.mark.parametrize("call", ["run x.yaml --dry-run", "validate x.yaml"])
def test_a_plan_that_does_not_end_is_named(folder, monkeypatch, call):
    endless = folder / "extensions" / "endless.py"
    endless.parent.mkdir()
    endless.write_text("def plan(*_):\n    raise KeyboardInterrupt\n")
    monkeypatch.setenv(extensions.VARIABLE, str(endless.parent))
    plan = runpy.run_path(str(endless))["plan"]
    monkeypatch.setattr("testbed.placement.deployments.deploy", plan)
    done = invoke(*call.split())
    assert done.exit_code == 130
    assert f"interrupted in {endless}:2" in done.stderr


def test_a_full_disk(folder, monkeypatch):
    full = OSError(errno.ENOSPC, "No space left on device", "results.csv")
    said = "Error: results.csv: no space left on device; free some space"
    for call, at, kept in (
        ("run x.yaml -o out", RUNS, f": {RESUMED}"),
        ("explain x.yaml", "testbed.studies.explain.study.study", ""),
    ):
        monkeypatch.setattr(at, raising(full))
        done = invoke(*call.split())
        assert (done.exit_code, last_line(done)) == (1, said + kept)


def test_a_report_that_is_interrupted_names_the_command_that_writes_it(folder, monkeypatch):
    monkeypatch.setattr("testbed.studies.reporting.report", raising(KeyboardInterrupt))
    done = invoke("run", "x.yaml", "-o", "out")
    last = done.stderr.splitlines()[-1]
    assert done.exit_code == 130
    assert last.startswith("interrupted; all rows are kept, and ina-testbed report out/tiny/")
    assert last.endswith(" writes the report")


def test_commands_to_go_on_with_can_be_pasted_into_a_shell(folder, monkeypatch):
    output = "o'ut put"
    with monkeypatch.context() as patched:
        patched.setattr(RUNS, raising(KeyboardInterrupt))
        line = invoke("run", "x.yaml", "-o", output).stderr.splitlines()[-1]
    (run,) = Path(output, "tiny").iterdir()
    assert f"run --resume {shlex.quote(str(run))} continues" in line
    monkeypatch.setattr("testbed.studies.reporting.report", raising(KeyboardInterrupt))
    line = invoke("run", "--resume", run).stderr.splitlines()[-1]
    assert f"ina-testbed report {shlex.quote(str(run))} writes" in line


KILL = "os.kill(os.getpid(), signal.SIGINT)"


@pytest.mark.parametrize(
    ("click", "before"),
    [
        (f"import os, signal; {KILL}", ""),
        (None, f"import atexit, os, signal; atexit.register(lambda: {KILL}); "),
    ],
    ids=["while it is imported", "at its end"],
)
def test_no_traceback_outside_a_verb(tmp_path, click, before):
    if click:
        (tmp_path / "click.py").write_text(click)
    program = f"{before}import sys; sys.argv = ['ina-testbed', '--version']"
    done = subprocess.run(
        [sys.executable, "-c", f"{program}; from testbed.__main__ import start; start()"],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{os.getcwd()}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "")


ROOT = str(Path(__file__).parents[2])
SLEEPS = """
    if "PYTHONHASHSEED" in os.environ:  # another interpreter, which plans again
        Path("asleep", str(os.getpid())).touch()
        time.sleep(600)
"""


def terminated(verb, folder, condition):
    """Kill a verb as soon as ``condition`` holds; its temporary files are below ``folder``."""
    (folder / "temporary").mkdir()
    surroundings = {**os.environ, "TMPDIR": str(folder / "temporary"), "PYTHONPATH": ROOT}
    surroundings.pop("PYTHONHASHSEED", None)
    process = subprocess.Popen(
        [sys.executable, "-m", "testbed.cli", *map(str, verb)],
        cwd=folder, env=surroundings, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert awaited(lambda: process.poll() or condition()) is True
        process.terminate()
        _, said = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
    assert (process.returncode, said) == (130, "interrupted\n")
    assert not [*(folder / "temporary").iterdir()]


def test_a_killed_conform_leaves_no_file(tmp_path):
    words = ["conform", PROGRAMS[VALUES], "--protocol", "atp", "--sequences", 100_000]
    terminated(words, tmp_path, lambda: any((tmp_path / "temporary").iterdir()))


def test_a_killed_validate_ends_the_interpreters_that_plan_again(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(extensions.VARIABLE, raising=False)
    invoke("new", "system", "own")
    path = tmp_path / "extensions" / "systems" / "own.py"
    head, options, rest = path.read_text().partition("    options = SYSTEM.settle({})")
    head = head.replace(
        "\n\nfrom pydantic", "\n\nimport os\nimport time\nfrom pathlib import Path\n\nfrom pydantic"
    )
    path.write_text(head + SLEEPS + options + rest)
    asleep = tmp_path / "asleep"
    asleep.mkdir()
    terminated(["validate", "own.yaml"], tmp_path, lambda: len([*asleep.iterdir()]) == 2)
    assert not [each for each in asleep.iterdir() if Path("/proc", each.name).exists()]
