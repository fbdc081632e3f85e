"""Cells on several machines: each worker is a process with its own address."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from leftovers import command_of, descendants
from patience import PATIENCE_S, assert_none, awaited
from tiny import experiment, file
from verbs import invoke

from testbed.backends.recording import NOTHING
from testbed.campaign import dask as spread
from testbed.campaign import executors, local, remote
from testbed.campaign.dask import Dask
from testbed.campaign.evaluation import New
from testbed.campaign.isolation import Failed
from testbed.campaign.local import Local
from testbed.campaign.planning import Planned, plan
from testbed.deployment.errors import DeploymentError
from testbed.experiment.cells import expand
from testbed.run_tables import read

pytest.importorskip("distributed")
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("slow_scheduler")]

DASK = str(Path(sys.executable).parent / "dask")
# If the tests themselves are killed, the scheduler ends soon. Workers may stay for half an hour.
LONE_SCHEDULER = ("--idle-timeout", "300 s")
LONE_WORKER = ("--death-timeout", f"{PATIENCE_S:.0f} s")
EMULATOR = ("--resources", "emulator=1")
HERE, THERE = "127.0.0.1", "127.0.0.2"


@pytest.fixture
def slow_scheduler(monkeypatch) -> Iterator[None]:
    """Wait for a busy machine, in the next test, too: the package sets Dask's own limit."""
    import dask

    monkeypatch.setattr(spread, "CONNECT_S", PATIENCE_S)
    with dask.config.set({"distributed.comm.timeouts.connect": f"{PATIENCE_S} s"}):
        yield


@pytest.fixture
def nobody_comes(monkeypatch) -> None:
    """Do not wait long for workers that the test does not start."""
    monkeypatch.setattr(spread, "PATIENCE_S", 0.5)


class Cluster:
    """A scheduler and workers; their addresses make them different machines."""

    workers: Sequence[subprocess.Popen[bytes]] = ()

    def __init__(self, folder: Path, **environment: str) -> None:
        self._folder, self._stack = folder, ExitStack()
        self._file = folder / "scheduler.json"
        words = ("--host", HERE, "--port", "0", "--no-dashboard", *LONE_SCHEDULER)
        self.scheduler = self._start("scheduler", *words, **environment)
        self.address = awaited(self._told)

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def worker(self, host: str, *more: str, cores: int = 1) -> subprocess.Popen[bytes]:
        """A worker that the scheduler knows; its temporary files stand for its machine's."""
        before = self._workers()
        own = self._folder / f"worker-{len(before)}"
        own.mkdir()
        process = self._start(
            *("worker", "--host", host, "--nthreads", str(cores), *more),
            *("--no-nanny", "--no-dashboard", *LONE_WORKER),
            TMPDIR=str(own),
        )
        awaited(lambda: len(self._workers()) > len(before))
        return process

    def _start(self, *words: str, **environment: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [DASK, *words, "--scheduler-file", str(self._file)],
            env=os.environ | {"TMPDIR": str(self._folder)} | environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)
        return process

    def _told(self) -> str:
        """The scheduler's address; empty while its file is missing or incomplete."""
        try:
            address: str = json.loads(self._file.read_text())["address"]
        except (FileNotFoundError, json.JSONDecodeError):
            return ""
        return address

    def _workers(self) -> list[str]:
        from distributed import Client

        with Client(self.address, set_as_default=False) as client:
            return list(client.nthreads())


@pytest.fixture(scope="module")
def two(tmp_path_factory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        cluster.workers = [cluster.worker(HERE), cluster.worker(THERE)]
        yield cluster


@pytest.fixture
def cluster(tmp_path) -> Iterator[Cluster]:
    (tmp_path / "cluster").mkdir()
    with Cluster(tmp_path / "cluster") as own:
        yield own


def simulated(folder: Path, **changes) -> list[Planned]:
    changes = {"sweep": {"jobs.0.system": ["ps", "ring", "atp"]}} | changes
    return plan(expand(experiment(folder, backend="simulate", **changes)))


def through(address: str, cells: list[Planned], logs: Path, started=lambda cell: None):
    executor = Dask(address)
    executor.prepare(cells, NOTHING)
    yield from executor.outcomes(cells, logs, NOTHING, started)


def test_rows_and_logs_come_back_as_if_they_were_made_here(two, tmp_path):
    asked = experiment(tmp_path, backend="simulate", sweep={"jobs.0.system": ["ps", "ring", "atp"]})
    here, _ = New(asked, tmp_path / "here").run(NOTHING, Local(), quiet=True)
    there, failed = New(asked, tmp_path / "there").run(NOTHING, Dask(two.address), quiet=True)
    assert failed == 0
    tables = [read(run) for run in (here, there)]
    for name in ("results", "iterations", "links"):
        first, second = (
            getattr(each, name)
            .drop(columns=["run", "started_at"], errors="ignore")
            .sort_values(["cell", "repeat"], kind="stable", ignore_index=True)
            for each in tables
        )
        assert first.equals(second), name
    for log in (there / "logs").iterdir():
        assert json.loads((log / "machine.json").read_text())["kernel"]
    assert len(list((there / "logs").iterdir())) == 3


def test_each_core_has_a_simulated_cell_at_a_time(two, tmp_path):
    """The number of running cells is read from the machines, because news of a start or an end may
    be late."""
    cells = simulated(tmp_path, emulation__repeats=2)
    started: list[str] = []
    running: list[int] = []

    def look() -> None:
        for worker in two.workers:
            # A cell's interpreter forks; the copies have its command line, with the cell's folder.
            commands = map(command_of, interpreters(worker.pid))
            running.append(len({words[3] for words in commands if words}))

    def note(cell: Planned) -> None:
        started.append(cell.cell.id)
        look()

    seen = []
    for cell, _ in through(two.address, cells, tmp_path, note):
        look()
        seen.append(cell.cell.id)
    assert set(seen) == {cell.cell.id for cell in cells} == set(started)
    assert len(seen) == len(started) == 6
    assert max(running) == 1


@pytest.mark.root
def test_a_machine_has_an_emulated_cell_at_a_time(cluster, tmp_path):
    cluster.worker(HERE, *EMULATOR, cores=3)
    cells = plan(expand(experiment(tmp_path, emulation__repeats=3)))
    started: list[int] = []
    counts = []
    for _, outcome in through(
        cluster.address, cells, tmp_path, lambda each: started.append(each.cell.repeat)
    ):
        assert not isinstance(outcome, Failed), str(outcome)
        counts.append(len(started))
    # The second may begin as soon as the first has ended.
    assert counts[0] < 3 == len(counts) == counts[-1]


@pytest.mark.usefixtures("nobody_comes")
def test_emulated_cells_need_a_worker_with_the_resource(cluster, tmp_path):
    cells = plan(expand(experiment(tmp_path)))
    cluster.worker(HERE)
    with pytest.raises(DeploymentError, match=r"resource emulator .* --resources emulator=1"):
        Dask(cluster.address).prepare(cells, NOTHING)
    cluster.worker(THERE, *EMULATOR)
    executor = Dask(cluster.address)
    executor.prepare(cells, NOTHING)
    executor._close()


def test_what_must_be_alone_is_alone_on_its_machine(tmp_path, monkeypatch):
    """Whoever runs it: schedulers, workers and simulations do not coordinate."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    both = threading.Barrier(2)

    def simulate() -> None:
        with remote.turn(alone=False):
            both.wait(PATIENCE_S)

    others = [threading.Thread(target=simulate) for _ in range(2)]
    seen = []
    with remote.turn(alone=True):
        for each in others:
            each.start()
        with pytest.raises(threading.BrokenBarrierError):
            both.wait(0.3)
        seen.append([each.is_alive() for each in others])
        both.reset()
    for each in others:
        each.join(PATIENCE_S)
    assert seen == [[True, True]]
    assert not both.broken


def test_a_machine_has_as_many_simulated_cells_as_cores(cluster, tmp_path):
    cluster.worker(HERE, cores=3)
    started: list[str] = []
    counts = [
        len(started)
        for _ in through(
            cluster.address,
            simulated(tmp_path),
            tmp_path,
            lambda cell: started.append(cell.cell.id),
        )
    ]
    assert counts == [3, 3, 3]


def test_the_cell_of_a_lost_machine_runs_on_another(cluster, tmp_path):
    workers = {HERE: cluster.worker(HERE), THERE: cluster.worker(THERE)}
    lost: list[Planned] = []

    def started(cell: Planned) -> None:
        if not lost:
            lost.append(cell)
            workers[HERE].kill()

    cells = simulated(tmp_path)
    found = dict[str, object]()
    for cell, outcome in through(cluster.address, cells, tmp_path, started):
        found[cell.cell.id] = outcome
    assert found.keys() == {cell.cell.id for cell in cells}
    assert lost[0].cell.id in found
    assert not [each for each in found.values() if isinstance(each, Failed)]


def test_machines_are_known_while_the_client_renews_what_it_knows(two, tmp_path):
    import dask

    executor = Dask(two.address)
    with dask.config.set({"distributed.client.scheduler-info-interval": "1ms"}):
        executor.prepare(simulated(tmp_path), NOTHING)
    try:
        assert all(executor._machines() == {HERE, THERE} for _ in range(500))
    finally:
        executor._close()


@pytest.mark.usefixtures("nobody_comes")
def test_what_finds_no_machine_any_more_is_told(cluster, tmp_path):
    worker = cluster.worker(HERE)
    with pytest.raises(DeploymentError, match=r"is left for 3 cells.*continue with run --resume"):
        list(through(cluster.address, simulated(tmp_path), tmp_path, lambda cell: worker.kill()))


@pytest.mark.usefixtures("nobody_comes")
def test_an_emulated_cell_does_not_wait_for_machines_that_only_simulate(cluster, tmp_path):
    worker = cluster.worker(HERE, *EMULATOR)
    cluster.worker(THERE)
    cells = plan(expand(experiment(tmp_path, jobs__0__iterations=100_000)))
    with pytest.raises(DeploymentError, match=r"resource emulator .* is left for 1 cell;"):
        list(through(cluster.address, cells, tmp_path, lambda cell: worker.kill()))


@pytest.mark.usefixtures("nobody_comes")
def test_an_emulated_cell_that_its_only_machine_refuses_is_told(cluster, tmp_path, monkeypatch):
    cluster.worker(HERE, *EMULATOR)
    cluster.worker(THERE)
    monkeypatch.setattr(remote, "code", lambda: "another")
    cells = plan(expand(experiment(tmp_path)))
    with pytest.raises(DeploymentError, match=r"resource emulator .*another version"):
        list(through(cluster.address, cells, tmp_path))


def test_a_scheduler_that_dies_is_told(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(spread, "CONNECT_S", 5.0)  # until it gives up
    cluster.worker(HERE)

    def started(cell: Planned) -> None:
        cluster.scheduler.kill()

    with pytest.raises(DeploymentError, match=r"is gone.*continue with run --resume"):
        list(through(cluster.address, simulated(tmp_path), tmp_path, started))


def test_a_cell_that_loses_machine_after_machine_has_failed(tmp_path):
    (tmp_path / "cluster").mkdir()
    with Cluster(
        tmp_path / "cluster", DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES="0"
    ) as cluster:
        worker = cluster.worker(HERE)
        cells = simulated(tmp_path)[:1]
        ((_, outcome),) = through(cluster.address, cells, tmp_path, lambda cell: worker.kill())
    assert isinstance(outcome, Failed)
    assert "its machine was lost" in str(outcome)


@pytest.mark.usefixtures("nobody_comes")
def test_a_machine_with_another_version_is_refused(two, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(remote, "code", lambda: "another")
    with pytest.raises(DeploymentError, match="another version of the testbed"):
        list(through(two.address, simulated(tmp_path), tmp_path))
    assert f"{HERE} runs no cells: it has another version" in capsys.readouterr().err


def test_what_is_not_waited_for_is_ended(cluster, tmp_path):
    worker = cluster.worker(HERE)
    cells = simulated(tmp_path, jobs__0__iterations=100_000)

    def interrupt(cell: Planned) -> None:
        awaited(lambda: interpreters(worker.pid))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(through(cluster.address, cells, tmp_path, interrupt))
    assert_none(lambda: interpreters(worker.pid))
    assert worker.poll() is None


def interpreters(pid: int) -> list[int]:
    return [each for each in descendants(pid) if remote.__name__ in command_of(each)]


def test_a_scheduler_that_does_not_answer_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(spread, "CONNECT_S", 1.0)
    path, out = file(tmp_path, backend="simulate"), tmp_path / "out"
    words = ["run", path, "-o", out, "--executor", f"dask:tcp://{HERE}:9"]
    done = invoke(*words)
    assert done.exit_code == 1
    assert "found no Dask scheduler" in done.output
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("nobody_comes")
def test_a_scheduler_without_workers_is_told(cluster, tmp_path):
    with pytest.raises(DeploymentError, match="found no worker"):
        Dask(cluster.address).prepare(simulated(tmp_path), NOTHING)


def test_without_the_package_there_is_a_word_on_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(DeploymentError, match=r"pip install 'ina-testbed\[dask\]'"):
        Dask("127.0.0.1:8786").prepare(simulated(tmp_path), NOTHING)


@pytest.mark.parametrize("text", ["", "dask", "dask:", "slurm:head"])
def test_an_executor_that_is_none_is_told(text, tmp_path):
    with pytest.raises(ValueError, match="wanted local or dask:ADDRESS"):
        executors.named(text)
    path = file(tmp_path, backend="simulate")
    done = invoke("run", path, "--executor", text)
    assert done.exit_code == 2


def test_a_cell_whose_files_differ_is_refused(tmp_path):
    (tmp_path / "gone").mkdir()
    cell = simulated(tmp_path / "gone")[0].cell
    asked = remote.request(cell, NOTHING, "token")
    assert "differ" in str(remote.serve(asked | {"version": "another"}).outcome)
    shutil.rmtree(tmp_path / "gone")
    assert "lacks a file" in str(remote.serve(asked).outcome)


def test_a_failure_comes_back_with_its_reason_and_its_logs(tmp_path, monkeypatch):
    def fail(cell, deployment, log_dir, recording):
        raise RuntimeError("as asked")

    cell = simulated(tmp_path)[0].cell
    monkeypatch.setattr(local, "run_cell", fail)
    failed = remote._outcome(remote.request(cell, NOTHING, "token"), tmp_path / "logs")
    assert isinstance(failed, Failed)
    assert str(failed) == "RuntimeError: as asked"
    content = (tmp_path / "logs" / local.log_name(cell) / "error.txt").read_bytes()
    remote.Reply(failed, {"switch/error.txt": content}).keep_logs(tmp_path / "own")
    assert "Traceback" in (tmp_path / "own" / "switch" / "error.txt").read_text()


def test_an_interpreter_that_dies_is_a_failure(tmp_path, monkeypatch):
    (tmp_path / "python").write_text("#!/bin/sh\necho out of memory\nexit 9\n")
    (tmp_path / "python").chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    reply = remote.serve(remote.request(simulated(tmp_path)[0].cell, NOTHING, "token"))
    assert str(reply.outcome) == "the interpreter died (exit code 9): out of memory"


def test_a_cell_is_ended_that_was_stopped_before_it_ran(tmp_path):
    cell = simulated(tmp_path, jobs__0__iterations=100_000)[0].cell
    remote.stop(["stopped early"])
    reply = remote.serve(remote.request(cell, NOTHING, "stopped early"))
    assert isinstance(reply.outcome, Failed) and "died (exit code" in str(reply.outcome)


def test_replies_hold_whole_rows(tmp_path):
    """The rows that come back as plain data are those that `run_cell` returned."""
    (cell, made), *_ = Local().outcomes(simulated(tmp_path), tmp_path, NOTHING, lambda cell: None)
    asked = remote.request(cell.cell, NOTHING, "token")
    got = remote.serve(asked).outcome
    assert [replace(row, started_at="") for row in got.jobs] == [
        replace(row, started_at="") for row in made.jobs
    ]
    assert (got.iterations, got.links) == (made.iterations, made.links)
