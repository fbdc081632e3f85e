"""Clean-up ends the leftovers of dead runs, and touches nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from leftovers import command_of, descendants
from patience import PATIENCE_S, awaited

from testbed.backends.emulation.cleanup import TAG, clean, mark

pytestmark = pytest.mark.alone


@pytest.fixture
def sleeper():
    """Start processes with the given tag (None: without one), and end them after the test."""
    started = []

    def start(run: str | None) -> subprocess.Popen[bytes]:
        environment = {name: value for name, value in os.environ.items() if name != TAG}
        if run is not None:
            environment[TAG] = run
        process = subprocess.Popen(["sleep", "60"], env=environment)
        started.append(process)
        # The kernel shows it some time after it has begun to run.
        awaited(Path(f"/proc/{process.pid}/environ").read_bytes)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


def run_that_ended() -> str:
    code = "from testbed.backends.emulation.cleanup import mark; print(mark())"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return said.stdout.strip()


def lines_about(process, lines):
    return [line for line in lines if line.startswith(f"process {process.pid} ")]


def test_what_a_dead_run_left_is_ended_and_named(sleeper):
    run = run_that_ended()
    left = sleeper(run)
    (line,) = lines_about(left, clean())
    assert left.wait(PATIENCE_S) == -9
    assert run in line
    assert "sleep 60" in line
    assert not lines_about(left, clean())


def test_a_run_in_progress_is_left_alone(sleeper):
    ours, untagged = sleeper(mark()), sleeper(None)
    clean()
    assert ours.poll() is None
    assert untagged.poll() is None


def test_a_number_used_anew_is_not_taken_for_the_run(sleeper):
    pid, _, start = mark().partition(".")
    left = sleeper(f"{pid}.{int(start) - 1}")
    assert lines_about(left, clean())


def test_an_ended_holder_that_nobody_collected_is_dead(sleeper):
    code = "from testbed.backends.emulation.cleanup import mark; print(mark())"
    holder = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    with holder:
        run = holder.stdout.read().strip()
        os.waitid(os.P_PID, holder.pid, os.WEXITED | os.WNOWAIT)
        left = sleeper(run)
        assert lines_about(left, clean())


@pytest.mark.parametrize("value", ["", "x", "1.2.3", "-1.5", "99999999999.1"])
def test_a_tag_that_means_nothing_is_a_dead_run(sleeper, value):
    left = sleeper(value)
    assert lines_about(left, clean())


@pytest.mark.root
def test_another_container_is_not_judged():
    environment = {**os.environ, TAG: "1.1"}
    process = subprocess.Popen(
        ["unshare", "--pid", "--fork", "--kill-child", "env", f"{TAG}=1.1", "sleep", "60"],
        env={name: value for name, value in environment.items() if name != TAG},
    )
    try:
        awaited(lambda: any(command_of(pid)[:1] == ["sleep"] for pid in descendants(process.pid)))
        assert not [line for line in clean() if "sleep 60" in line]
    finally:
        process.kill()
        process.wait()
