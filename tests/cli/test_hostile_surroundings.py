"""A locale without UTF-8, a full disk and a folder that is gone give no traceback."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from made_up import rows, run


def called(line, folder, **environment):
    known = {key: value for key, value in os.environ.items() if key != "INA_TESTBED_EXTENSIONS"}
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
def test_a_full_disk(tmp_path):
    code, said = called('"$@" schema > /dev/full', tmp_path)
    assert (code, "no space left" in said) == (1, True), said


def test_a_folder_that_is_gone(tmp_path):
    line = 'mkdir gone && cd gone && rmdir ../gone && "$@" systems'
    code, said = called(line, tmp_path)
    assert (code, "the current folder" in said) == (1, True), said
