"""run_all.sh: the runs of the reference, with a program that only notes how it is called."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROGRAM = """\
#!/bin/bash
echo "$@" >> calls
[[ $1 != run ]] || mkdir -p "results/reference/$(basename "${@: -1}" .yaml)/20260101-000000"
[[ $1 != run ]] || exit "$CODE"
"""


@pytest.fixture
def reference(tmp_path: Path):
    """Calls ``run_all.sh --reference`` where runs end with a code; returns the script's code, and
    the calls."""
    shutil.copy(ROOT / "run_all.sh", tmp_path)
    for path, text in (
        ("setup.sh", "#!/bin/bash\n"),
        (".venv/bin/ina-testbed", PROGRAM),
        (".venv/bin/python", "#!/bin/bash\n"),
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
        (tmp_path / path).chmod(0o755)

    def call(code: int, path: str = os.environ["PATH"]) -> tuple[int, list[str]]:
        done = subprocess.run(
            ["./run_all.sh", "--reference"],
            cwd=tmp_path, env=os.environ | {"CODE": str(code), "PATH": path}, check=False,
            capture_output=True,
        )  # fmt: skip
        calls = tmp_path / "calls"
        return done.returncode, calls.read_text().splitlines() if calls.exists() else []

    return call


@pytest.mark.parametrize("code", [0, 1], ids=["complete", "with failed cells"])
def test_every_run_is_on_the_page(reference, code):
    ended, (*runs, claims, page) = reference(code)
    assert ended == 0
    assert claims == "claims -o results/claims"
    for call in runs:
        name = Path(call.split()[-1]).stem
        assert (ROOT / "experiments" / f"{name}.yaml").exists()
        assert f" results/reference/{name}/" in page


def test_every_published_run_is_made_again(reference):
    _, (*runs, _, _) = reference(0)
    published = {path.parent.name for path in (ROOT / "reports/reference").glob("*/run.json")}
    made = {Path(call.split()[-1]).stem for call in runs}
    assert made | {"emulated-bmv2"} == published  # that one needs BMv2


def test_a_signal_to_a_run_ends_it_all(reference):
    ended, calls = reference(130)
    assert ended == 130
    assert len(calls) == 1


def test_nothing_runs_where_claims_on_accuracy_cannot(reference, tmp_path):
    (tmp_path / ".venv/bin/python").write_text("#!/bin/bash\nexit 1\n")
    assert reference(0) == (1, [])


def test_runs_in_the_repository_are_resumed(reference, tmp_path):
    kept = tmp_path / "reports/reference/sensitivity"
    kept.mkdir(parents=True)
    (kept / "iterations.csv").write_text("")
    _, calls = reference(0)
    resumed = "results/reference/sensitivity/kept"
    assert f"run --resume {resumed} --adopt experiments/sensitivity.yaml" in calls
    assert f" {resumed} " in calls[-1]
    assert (tmp_path / resumed / "iterations.csv").exists()


def test_kept_runs_on_bmv2_stay_where_it_is_missing(reference, tmp_path):
    without = tmp_path / "without"
    without.mkdir()
    for program in ("bash", "basename", "cp", "dirname", "find", "mkdir", "sort", "tail"):
        (without / program).symlink_to(str(shutil.which(program)))
    kept = tmp_path / "reports/reference/emulated-bmv2"
    kept.mkdir(parents=True)
    (kept / "iterations.csv").write_text("")
    _, calls = reference(0, str(without))
    assert not any("emulated-bmv2" in call for call in calls[:-1])
    assert " results/reference/emulated-bmv2/kept" in calls[-1]


def test_set_up_after_one_that_was_interrupted(tmp_path):
    """Python's venv makes `.venv/bin/python` first and installs pip last."""
    log = tmp_path / "calls"
    made = "cd .venv/bin; ln -sf /bin/true python; ln -s /bin/true ina-testbed"
    for path, text in (
        ("setup.sh", (ROOT / "setup.sh").read_text().replace("/usr/bin/python3", "./python")),
        ("python", f'#!/bin/bash\necho "$@" >> {log}\n[[ $2 != venv ]] || {{ {made}; }}\n'),
        ("dpkg-query", "#!/bin/bash\necho install ok installed\n"),
        (".venv/bin/python", "#!/bin/bash\nexit 1\n"),
        ("pyproject.toml", ""),
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
        (tmp_path / path).chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    subprocess.run(["./setup.sh"], cwd=tmp_path, env=os.environ | {"PATH": path}, check=True)
    assert "-m venv --clear --system-site-packages .venv" in log.read_text().splitlines()
