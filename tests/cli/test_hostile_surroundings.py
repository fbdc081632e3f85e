"""A locale without UTF-8, a full disk and a missing folder do not cause a traceback."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
import tiny
import yaml
from made_up import rows, run
from verbs import invoke

from testbed import skeletons
from testbed.cli.failures import failed_file


def called(line, folder, **environment):
    # PYTHONUNBUFFERED, which containers set, would hide what is left to write at the end.
    known = {
        key: value
        for key, value in os.environ.items()
        if key != "INA_TESTBED_EXTENSIONS" and not key.startswith("PYTHON")
    }
    done = subprocess.run(
        ["bash", "-c", line, "bash", sys.executable, "-m", "testbed.cli"],
        cwd=folder,
        env={**known, **environment, "PYTHONPATH": os.getcwd()},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    said = done.stdout.decode()
    assert "Traceback" not in said, said
    return done.returncode, said


def test_a_locale_without_utf_8(tmp_path):
    directory = run(tmp_path, rows("ps", 4.0, 4.1) + rows("ring", 3.0, 3.1))
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    code, said = called(f'"$@" report {directory} -o out', tmp_path, **ascii_only)
    assert code == 0, said
    assert "×" in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
@pytest.mark.parametrize("verb", ["schema", "systems"])
def test_a_full_disk(verb, tmp_path):
    code, said = called(f'"$@" {verb} > /dev/full', tmp_path)
    assert (code, "no space left" in said) == (1, True), said
    assert "Exception ignored" not in said


@pytest.mark.parametrize("verb", ["torture --seeds 1 --jobs 1 --system ring", "explain --drills"])
def test_no_compiler(verb, tmp_path):
    without = {"CC": "/nonexistent", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    code, said = called(f'"$@" {verb}', tmp_path, **without)
    assert (code, "need a C compiler" in said) == (1, True), said
    assert "failed" not in said


def test_a_reader_that_has_left(tmp_path):
    (tmp_path / "x.yaml").write_text(yaml.safe_dump(tiny.data(tmp_path, backend="packet")))
    writer = '{ until [[ -e left ]]; do sleep 0.01; done; "$@" run x.yaml --dry-run; }'
    assert called(f"{writer} | {{ exec <&-; touch left; }}", tmp_path) == (0, "")


def test_no_output(tmp_path):
    assert called('"$@" systems >&-', tmp_path) == (0, "")


@pytest.mark.parametrize("closed", ["2>&-", ">&-", ">&- 2>&- <&-"])
def test_streams_that_are_closed(closed, tmp_path):
    (tmp_path / "x.yaml").write_text(yaml.safe_dump(tiny.data(tmp_path, backend="simulate")))
    code, said = called(f'"$@" run x.yaml -o out {closed}', tmp_path)
    assert code == 0, said
    (table,) = tmp_path.glob("out/tiny/*/results.csv")
    assert len(table.read_text().splitlines()) == 2
    assert called(f'"$@" watch out {closed}', tmp_path)[0] == 0


def test_a_report_beside_results_that_cannot_be_written_names_the_option(tmp_path):
    directory = run(tmp_path, rows("ps", 4.0, 4.1))
    (directory / "figures").write_text("")
    done = invoke("report", directory)
    assert done.exit_code == 2
    assert "-o DIRECTORY writes elsewhere" in done.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
def test_a_full_disk_under_a_figure(tmp_path):
    directory = run(tmp_path, rows("ps", 4.0, 4.1) + rows("ring", 3.0, 3.1))
    (tmp_path / "out/figures").mkdir(parents=True)
    for name in ("jct", "speed-up", "closed-form"):
        (tmp_path / f"out/figures/{name}.pdf").symlink_to("/dev/full")
    code, said = called(f'"$@" report {directory} -o out', tmp_path)
    assert (code, "no space left" in said) == (1, True), said


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
def test_a_full_disk_under_the_progress(tmp_path):
    (tmp_path / "x.yaml").write_text(yaml.safe_dump(tiny.data(tmp_path, backend="simulate")))
    code, said = called('"$@" run x.yaml -o out 2> /dev/full', tmp_path)
    assert code == 0, said
    assert len(list(tmp_path.glob("out/*/*/report.html"))) == 1


@pytest.mark.parametrize("backend", ["nothing", "module://matplotlib_inline.backend_inline"])
def test_a_backend_of_matplotlib_that_is_not_here(backend, tmp_path):
    directory = run(tmp_path, rows("ps", 4.0, 4.1) + rows("ring", 3.0, 3.1))
    code, said = called(f'"$@" report {directory} -o out', tmp_path, MPLBACKEND=backend)
    assert code == 0, said


def test_a_user_without_a_home(tmp_path):
    (tmp_path / "x.yaml").write_text(yaml.safe_dump(tiny.data(tmp_path, backend="packet")))
    nobody = "import pwd; pwd.getpwuid = {}.__getitem__"
    nobody += "; from testbed.__main__ import start; start()"
    line = f'env -u HOME -u XDG_CACHE_HOME -u XDG_STATE_HOME "$1" -c "{nobody}" validate x.yaml'
    code, said = called(line, tmp_path)
    assert (code, "this user has no home folder; set HOME" in said) == (2, True), said


def test_completion_beside_a_broken_extension(tmp_path):
    (tmp_path / "extensions/systems").mkdir(parents=True)
    (tmp_path / "extensions/systems/mine.py").write_text("def (")
    asked = {"_INA_TESTBED_COMPLETE": "bash_complete", "COMP_CWORD": "2"}
    assert called('"$@"', tmp_path, **asked, COMP_WORDS="ina-testbed systems ") == (0, "\n")


def test_a_folder_that_is_gone(tmp_path):
    line = 'mkdir gone && cd gone && rmdir ../gone && "$@" systems'
    code, said = called(line, tmp_path)
    assert (code, "the current folder" in said) == (1, True), said


@pytest.mark.parametrize("verb", ["run x.yaml", "torture --seeds 1", "torture --case x.yaml"])
def test_a_home_that_cannot_be_written(verb, tmp_path):
    (tmp_path / "x.yaml").write_text(yaml.safe_dump(tiny.data(tmp_path, backend="packet")))
    line = f'env -u XDG_CACHE_HOME HOME=/dev/null/home "$@" {verb}'
    code, said = called(line, tmp_path)
    assert (code, "set HOME or XDG_CACHE_HOME to a folder" in said) == (2, True), said


@pytest.mark.root
def test_a_cache_from_which_no_program_can_run(tmp_path):
    (tmp_path / "x.yaml").write_text(yaml.safe_dump(tiny.data(tmp_path, backend="packet")))
    mounted = 'mount -t tmpfs -o noexec none cache && "$@" run x.yaml'
    line = f"mkdir cache && unshare --mount sh -c '{mounted}' sh" + ' "$@"'
    code, said = called(line, tmp_path, XDG_CACHE_HOME="cache")
    assert (code, "on a disk that is not mounted noexec" in said) == (2, True), said


def test_a_name_that_is_not_utf_8(tmp_path):
    (tmp_path / "x.yaml").write_text(yaml.safe_dump(tiny.data(tmp_path, backend="packet")))
    code, said = called("\"$@\" run x.yaml -o $'out\\xff'", tmp_path)
    assert (code, "found a name that is not UTF-8: '\\udcff'" in said) == (2, True), said


def test_a_full_disk_is_said_where_no_file_is_known():
    error = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert failed_file(error, "kept") == "no space left on device; free some space: kept"


@pytest.mark.parametrize("kind", ["protocol", "workload"])
def test_new_leaves_nothing_on_a_full_disk(kind, tmp_path, monkeypatch):
    opens, opened = Path.open, []

    def full(path, mode="r", *arguments, **settings):
        file = opens(path, mode, *arguments, **settings)
        if mode != "x":
            return file
        opened.append(path)
        if len(opened) == 1:
            return file
        file.close()
        return opens(Path("/dev/full"), "w", buffering=1)

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(OSError, match="No space left"):
        skeletons.write(kind, "own", tmp_path)
    assert len(opened) == 2
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
