"""Experiments from their file to their results, through the command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from leftovers import assert_ended, assert_gone, command_of, descendants, namespace_of
from patience import PATIENCE_S, awaited
from tiny import FRAGMENTS, file

from testbed.run_tables import read, read_metadata

COMMAND = [str(Path(sys.executable).parent / "ina-testbed")]

pytestmark = pytest.mark.root


def ina_testbed(*arguments: object, **more) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *map(str, arguments)], capture_output=True, text=True, check=False, **more
    )


def only_run(output: Path) -> Path:
    (run,) = (output / "tiny").iterdir()
    return run


def test_every_system_is_run_verified_and_reported(tmp_path):
    experiment = file(
        tmp_path,
        fabric__ina="all",
        sweep={"jobs.0.system": ["ps", "ring", "atp"]},
        emulation__repeats=2,
    )
    done = ina_testbed("run", experiment, "-o", tmp_path)
    assert done.returncode == 0, done.stderr
    run = only_run(tmp_path)

    rows = read(run).results
    assert len(rows) == 6
    assert set(rows.system) == {"ps", "ring", "atp"}
    assert set(rows.repeat) == {0, 1}
    assert rows.verified.all()
    assert (rows.error == "").all()
    assert (rows.workers == 4).all()
    assert dict(zip(rows.system, rows.switch_target, strict=True)) == {
        "ps": "",
        "ring": "",
        "atp": "native",
    }
    # PS has a server of its own, and every worker serves.
    assert dict(zip(rows.system, rows.servers, strict=True)) == {"ps": 5, "ring": 0, "atp": 1}
    # In the real cluster's time, 240 KB take at least as long as on a 10 Gbit/s link.
    least = FRAGMENTS * 1024 * 8 / 10e9
    assert (rows.iteration_s >= least).all()
    assert (rows.iteration_s < 100 * least).all()
    assert rows.jct_s.to_numpy() == pytest.approx(2 * rows.iteration_s.to_numpy())
    assert (rows.expected_jct_s > 2 * least).all()
    assert (rows.algbw_gbit_s < 10).all()

    iterations = read(run).iterations
    assert len(iterations) == 6 * 4 * 2
    assert (iterations.end_s >= iterations.compute_end_s).all()
    assert (iterations.compute_end_s > iterations.start_s).all()

    metadata = read_metadata(run)
    assert metadata["finished_at"]
    assert metadata["seeds"] == {"experiment": 1}
    assert metadata["command"].startswith("ina-testbed run")
    assert str(tmp_path) not in json.dumps(metadata)
    again = ina_testbed("validate", run / "experiment.yaml")
    assert again.returncode == 0, again.stderr

    assert "report:" in done.stdout
    assert Path(done.stdout.rpartition("report:")[2].strip()).exists()
    # Not a terminal: plain lines, one when a cell starts and one when it ends.
    assert "\x1b" not in done.stderr
    assert done.stderr.count("[6/6]") == 2


def test_a_dry_run_lists_the_cells_and_makes_nothing(tmp_path):
    experiment = file(tmp_path, sweep={"jobs.0.system": ["ps", "ring"]})
    done = ina_testbed("run", "--dry-run", experiment, "-o", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 2
    assert not (tmp_path / "out").exists()


class Running:
    """A run in the background, and the processes in its fabric."""

    def __init__(self, experiment: Path, output: Path) -> None:
        self._said = output / "stderr.txt"
        with self._said.open("w") as said:
            self.process = subprocess.Popen(
                [*COMMAND, "run", str(experiment), "-o", str(output)],
                stdout=subprocess.DEVNULL,
                stderr=said,
                start_new_session=True,
            )

    @property
    def said(self) -> str:
        return self._said.read_text()

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *error: object) -> None:
        self.process.kill()
        with suppress(ProcessLookupError):  # what a failed test has left
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def inside(self) -> dict[int, int]:
        """The run's processes in network namespaces other than ours, with their namespaces."""
        namespace = {pid: namespace_of(pid) for pid in descendants(self.process.pid)}
        return {
            pid: inode
            for pid, inode in namespace.items()
            if inode is not None and inode != namespace_of(os.getpid())
        }

    def ranks(self) -> list[int]:
        """The processes of ranks. They are forks, so they have the run's command line."""
        own = command_of(self.process.pid)
        return [pid for pid in self.inside() if command_of(pid) == own]

    def wait_for_ranks(self, count: int) -> list[int]:
        return self._awaited(lambda: ranks if len(ranks := self.ranks()) == count else None)

    def wait_for_rows(self, output: Path, count: int) -> None:
        def there():
            files = list(output.glob("tiny/*/results.csv"))
            return files and len(files[0].read_text().splitlines()) >= count + 1

        self._awaited(there)

    def _awaited(self, condition):
        def runs_and_holds():
            assert self.process.poll() is None, self.said
            return condition()

        return awaited(runs_and_holds)


def endless(folder: Path, **more: object) -> Path:
    """An experiment with a cell that ends, and one that does not."""
    return file(folder, sweep={"jobs.0.iterations": [1, 100_000]}, **more)


def long_cell_runs(run: Running, output: Path) -> list[int]:
    run.wait_for_rows(output, 1)
    return run.wait_for_ranks(5)


@pytest.fixture
def short_first(tmp_path):
    """An experiment with a seed for which the short cell runs first."""
    from testbed.experiment.cells import expand
    from testbed.experiment.load import load

    for seed in range(1, 20):
        experiment = endless(tmp_path, emulation__seed=seed)
        if expand(load(experiment))[0].experiment.jobs[0].iterations == 1:
            return experiment
    raise AssertionError("no such seed")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=str)
@pytest.mark.parametrize("whole_group", [False, True], ids=["the command", "its group"])
def test_an_interrupted_run_leaves_its_rows_and_nothing_else(
    number, whole_group, short_first, tmp_path
):
    with Running(short_first, tmp_path) as run:
        long_cell_runs(run, tmp_path)
        inside = run.inside()
        everyone = descendants(run.process.pid)
        if whole_group:
            os.killpg(run.process.pid, number)
        else:
            run.process.send_signal(number)
        assert_gone(set(inside.values()))
        code = run.process.wait(PATIENCE_S)
        assert_ended(everyone)
        if number != signal.SIGKILL:
            assert code == 130
    rows = read(only_run(tmp_path)).results
    assert list(rows.verified) == [True]
    assert read_metadata(only_run(tmp_path))["finished_at"] is None


def test_a_killed_worker_makes_a_failed_row_and_the_others_are_run(short_first, tmp_path):
    with Running(short_first, tmp_path) as run:
        ranks = long_cell_runs(run, tmp_path)
        inside = run.inside()
        os.kill(ranks[2], signal.SIGKILL)
        assert_gone(set(inside.values()))
        assert run.process.wait(PATIENCE_S) == 1
        said = run.said
    assert "FAILED: job 0 worker rank 2 died (exit code -9)" in said
    rows = read(only_run(tmp_path)).results
    assert len(rows) == 2
    good, bad = rows.iloc[0], rows.iloc[1]
    assert good.verified and good.error == ""
    assert not bad.verified
    assert bad.verdict == "failed"
    assert "worker rank 2 died" in bad.error
    assert str(bad.jct_s) == "nan"
    assert read_metadata(only_run(tmp_path))["finished_at"]


def test_a_killed_cell_makes_a_failed_row(short_first, tmp_path):
    with Running(short_first, tmp_path) as run:
        long_cell_runs(run, tmp_path)
        inside = run.inside()
        os.kill(descendants(run.process.pid)[0], signal.SIGKILL)
        assert_gone(set(inside.values()))
        assert run.process.wait(PATIENCE_S) == 1
    rows = read(only_run(tmp_path)).results
    assert list(rows.verified) == [True, False]
    assert "exit code -9" in rows.error[1]


def test_a_killed_switch_makes_a_failed_row_that_names_it(tmp_path):
    with Running(file(tmp_path, jobs__0__iterations=100_000, fabric__ina="all"), tmp_path) as run:
        run.wait_for_ranks(5)
        inside = run.inside()
        (switch,) = [pid for pid in inside if any("=t0-h0" in word for word in command_of(pid))]
        os.kill(switch, signal.SIGKILL)
        assert_gone(set(inside.values()))
        assert run.process.wait(PATIENCE_S) == 1
    (error,) = read(only_run(tmp_path)).results.error
    assert "t0: " in error
