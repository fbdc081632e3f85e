"""The verbs that use the simulator."""

from __future__ import annotations

from tiny import experiment, file
from verbs import invoke

from testbed.backends.recording import NOTHING
from testbed.campaign.evaluation import New
from testbed.campaign.local import Local


def test_where_switches_should_be_programmable(tmp_path):
    done = invoke("place", file(tmp_path, fabric__hosts_per_leaf=[4, 2]), "--budget", 1)
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert lines[0].endswith("tiny.yaml") and "ina: [t0]" in lines


def test_jobs_for_which_nothing_can_be_placed(tmp_path):
    done = invoke("place", file(tmp_path, jobs__0__colocated=True), "--budget", 1)
    assert done.exit_code == 1
    assert "the jobs cannot run without INA" in done.output
    assert "Traceback" not in done.output


def test_the_ladder_of_a_run_that_is_there(tmp_path):
    _, failures = New(experiment(tmp_path, backend="simulate"), tmp_path / "results").run(
        NOTHING, Local(), quiet=True
    )
    assert not failures
    done = invoke("ladder", tmp_path / "results")
    assert done.exit_code == 1  # nothing was emulated
    assert done.output.splitlines()[-1].startswith(
        "ladder: UNDECIDED, no row of the emulator to compare"
    )


def test_a_ladder_of_nothing(tmp_path):
    done = invoke("ladder", tmp_path)
    assert done.exit_code == 2 and "found no results.csv" in done.output
