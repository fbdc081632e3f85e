"""Resuming a run: finished cells stay, and only missing ones run."""

from __future__ import annotations

import csv
import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from tiny import experiment, trace_file

from testbed.backends.recording import NOTHING
from testbed.campaign import cell, local, planning, resume
from testbed.campaign.cell import CellResult, describe
from testbed.campaign.evaluation import New, Resumed
from testbed.campaign.isolation import Failed
from testbed.campaign.local import Executor, Local
from testbed.campaign.resume import Rules
from testbed.deployment.deploy import Deployment, deploy
from testbed.deployment.errors import DeploymentError
from testbed.experiment.cells import Cell, expand
from testbed.experiment.schema import Experiment
from testbed.placement import deployments
from testbed.plan.program import Pipelining
from testbed.results import Iteration
from testbed.run_tables import Unreadable, read, read_metadata
from testbed.systems import registry

SYSTEMS = ["ps", "ring", "atp"]


class Recorder:
    """An executor that makes up results and records the cells. Cells of the system ``fail`` fail.

    It is interrupted after ``most`` cells.
    """

    def __init__(self, fail: str = "", most: int = 1000) -> None:
        self.ran: list[tuple[str, int]] = []
        self._fail, self._most = fail, most

    def prepare(self, cells, recording):
        pass

    def outcomes(self, cells, logs, recording, started):
        for each in cells:
            if len(self.ran) == self._most:
                raise KeyboardInterrupt
            cell = each.cell
            self.ran.append((cell.experiment.jobs[0].system, cell.repeat))
            if cell.experiment.jobs[0].system == self._fail:
                yield each, Failed("as asked")
            else:
                yield each, made_up(cell, each.deployment)


def made_up(cell: Cell, deployment: Deployment, error: str = "") -> CellResult:
    """One iteration of one rank for each job."""
    described = describe(cell, deployment)
    return CellResult(
        [replace(row, jct_s=1.0, verdict="valid", error=error) for row in described],
        [
            Iteration(row.cell, row.repeat, row.job, row.system, row.workload, 0, 0, 0.0, 1.0, 2.0)
            for row in described
        ],
    )


@pytest.fixture
def swept(tmp_path) -> Experiment:
    return simulated(tmp_path)


def simulated(folder: Path, **changes) -> Experiment:
    changes = {"sweep": {"jobs.0.system": SYSTEMS}, "emulation__repeats": 2} | changes
    return experiment(folder, backend="simulate", **changes)


def run(swept: Experiment, root: Path, executor: Executor) -> Path:
    with suppress(KeyboardInterrupt):
        New(swept, root).run(NOTHING, executor)
    (directory,) = (root / "tiny").iterdir()
    return directory


def go_on(directory: Path, swept: Experiment | None = None, **rules) -> list[tuple[str, int]]:
    recorder = Recorder()
    Resumed(directory, swept, Rules(**rules)).run(NOTHING, recorder)
    return recorder.ran


def test_only_what_is_missing_is_run_and_finished_rows_stay_as_they_are(swept, tmp_path):
    first = Recorder(most=4)
    directory = run(swept, tmp_path, first)
    before = (directory / "results.csv").read_text()
    assert read_metadata(directory)["finished_at"] is None

    second = go_on(directory)
    assert len(second) == 2
    assert sorted(first.ran + second) == sorted((each, n) for each in SYSTEMS for n in range(2))
    assert (directory / "results.csv").read_text().startswith(before)
    rows, iterations, _ = read(directory)
    assert len(rows) == 6
    assert len(iterations) == 6
    metadata = read_metadata(directory)
    assert metadata["finished_at"]
    assert len(metadata["resumed"]) == 1
    assert metadata["ended_at"] <= metadata["resumed"][0]["ended_at"] == metadata["finished_at"]


def test_resuming_a_finished_run_changes_nothing(swept, tmp_path):
    directory = run(swept, tmp_path, Recorder())
    before = read_metadata(directory)
    assert go_on(directory) == []
    assert read_metadata(directory) == before


def test_a_table_with_columns_of_others_is_kept_as_it_was(swept, tmp_path):
    directory = run(swept, tmp_path, Recorder())
    table = directory / "results.csv"
    head, *lines = table.read_text().splitlines()
    noted = "\n".join([f"{head},note", *(f"{line},mine" for line in lines)]) + "\n"
    table.write_text(noted)
    assert go_on(directory) == []
    assert table.read_text().splitlines() == [head, *lines]
    assert (directory / "superseded-columns-results.csv").read_text() == noted


def test_a_row_that_was_cut_off_is_run_again_without_doubling_its_iterations(swept, tmp_path):
    directory = run(swept, tmp_path, Recorder(most=3))
    table = directory / "results.csv"
    os.truncate(table, table.stat().st_size - 5)
    assert len(go_on(directory)) == 4
    rows, iterations, _ = read(directory)
    assert len(rows) == 6
    assert not iterations.duplicated(["cell", "repeat", "rank", "iteration"]).any()
    assert len(iterations) == 6


def test_all_jobs_of_a_cell_must_be_there(tmp_path):
    jobs = experiment(tmp_path).data()["jobs"] * 2
    two = [{**job, "workers": 2} for job in jobs]
    swept = simulated(tmp_path, jobs=two)
    directory = run(swept, tmp_path, Recorder())
    lines = (directory / "results.csv").read_text().splitlines(keepends=True)
    assert len(lines) == 13
    (directory / "results.csv").write_text("".join(lines[:-1]))
    assert len(go_on(directory)) == 1
    assert len(read(directory).results) == 12
    assert len((directory / "superseded-results.csv").read_text().splitlines()) == 2


def test_failed_cells_are_finished_unless_they_shall_be_tried_again(swept, tmp_path):
    directory = run(swept, tmp_path, Recorder(fail="ring"))
    rows = read(directory).results
    assert (rows.error[rows.system == "ring"] == "as asked").all()
    assert go_on(directory) == []
    assert go_on(directory, retry=["invalid"]) == []
    assert sorted(go_on(directory, retry=["failed"])) == [("ring", 0), ("ring", 1)]
    rows = read(directory).results
    assert len(rows) == 6
    assert (rows.error == "").all()
    aside = (directory / "superseded-results.csv").read_text()
    assert aside.count("as asked") == 2


def test_invalid_cells_may_be_tried_again(swept, tmp_path):
    directory = run(swept, tmp_path, Recorder())
    table = directory / "results.csv"
    table.write_text(table.read_text().replace(",valid,", ",processor busy,", 1))
    assert go_on(directory, retry=["failed"]) == []
    assert len(go_on(directory, retry=["invalid"])) == 1
    assert (read(directory).results.verdict == "valid").all()


def test_rows_of_another_version_do_not_count(swept, tmp_path, monkeypatch):
    directory = run(swept, tmp_path, Recorder())
    old = set(read(directory).results.version)
    as_another_version(monkeypatch)
    assert go_on(directory, any_version=True) == []
    assert "6 rows" in Resumed(directory, None, Rules()).note
    assert len(go_on(directory)) == 6
    with (directory / "superseded-results.csv").open() as file:
        assert {row["version"] for row in csv.DictReader(file)} == old
    assert len(read(directory).iterations) == 6


def as_another_version(monkeypatch, runs_others: bool = True, name: str = "another") -> None:
    """As if code had changed: of what runs a deployment, or only of what makes it."""
    for module in (resume, cell):
        monkeypatch.setattr(module, "version", lambda experiment: name)
        if runs_others:
            monkeypatch.setattr(module, "deployed", lambda experiment, made: name)


def test_rows_of_a_users_system_count_only_if_it_makes_the_same_plan(tmp_path, monkeypatch):
    """It may read other files, which no version knows."""
    directory = run(simulated(tmp_path), tmp_path, Recorder())
    monkeypatch.setattr(resume, "deployed", lambda experiment, made: "another")
    assert not Resumed(directory, None, Rules()).planned
    monkeypatch.setattr(resume, "users_systems", lambda: frozenset(SYSTEMS))
    assert len(Resumed(directory, None, Rules()).planned) == 6


class Slower(Recorder):
    """Another version, in which one system is slower."""

    def __init__(self, system: str) -> None:
        super().__init__()
        self._slower = system

    def outcomes(self, cells, logs, recording, started):
        for each, made in super().outcomes(cells, logs, recording, started):
            (row,) = made.jobs
            # The last digit of another order of operations is no other result.
            jct_s = 2.0 if row.system == self._slower else 1.0000000000000002
            yield each, replace(made, jobs=[replace(row, jct_s=jct_s)])


def test_rows_of_another_version_are_adopted_if_one_of_their_cell_comes_out_the_same(
    tmp_path, monkeypatch
):
    swept = simulated(tmp_path, emulation__repeats=3)
    directory = run(swept, tmp_path, Recorder())
    as_another_version(monkeypatch)
    other = Slower("ring")
    Resumed(directory, None, Rules(adopt=True)).run(NOTHING, other)
    assert other.ran == [("ps", 0), ("ring", 0), ("atp", 0), ("ring", 1), ("ring", 2)]
    rows = read(directory).results
    assert set(rows.version) == {"another"}
    assert rows.groupby("system").jct_s.apply(list).to_dict() == {
        "ps": [1.0000000000000002, 1.0, 1.0],
        "ring": [2.0] * 3,
        "atp": [1.0000000000000002, 1.0, 1.0],
    }
    assert len(read(directory).iterations) == 9
    assert read_metadata(directory)["resumed"][-1]["adopted"] == 4
    assert go_on(directory) == []


def test_rows_of_mininet_are_never_adopted(tmp_path, monkeypatch):
    swept = experiment(tmp_path, sweep={"jobs.0.system": SYSTEMS}, emulation__repeats=2)
    directory = run(swept, tmp_path, Recorder())
    as_another_version(monkeypatch)
    assert len(go_on(directory, adopt=True)) == 6


def test_a_run_of_which_no_row_counts_begins_anew(tmp_path, monkeypatch):
    """Its page must not name the commit of rows that are gone."""
    swept = experiment(tmp_path, sweep={"jobs.0.system": SYSTEMS}, emulation__repeats=2)
    directory = run(swept, tmp_path, Recorder())
    first = read_metadata(directory)
    as_another_version(monkeypatch)
    assert len(go_on(directory)) == 6
    second = read_metadata(directory)
    assert "resumed" not in second and second["finished_at"] == second["ended_at"]
    assert second["superseded"] == [first] and second["seeds"] == first["seeds"]
    as_another_version(monkeypatch, name="a third")
    assert len(go_on(directory)) == 6
    assert [each["started_at"] for each in read_metadata(directory)["superseded"]] == [
        first["started_at"],
        second["started_at"],
    ]


def test_a_session_with_another_seed_names_it(swept, tmp_path):
    directory = run(swept, tmp_path, Recorder(most=1))
    assert read_metadata(directory)["seeds"] == {"experiment": 1}
    other = swept.model_copy(update={"emulation": swept.emulation.model_copy(update={"seed": 7})})
    go_on(directory, other)
    assert read_metadata(directory)["seeds"] == {"experiment": 7}


@pytest.mark.parametrize("backend", ["simulate", "emulate"])
def test_rows_count_if_another_version_would_run_the_same(tmp_path, monkeypatch, backend):
    swept = experiment(
        tmp_path,
        sweep={"jobs.0.system": SYSTEMS},
        emulation__repeats=2,
        backend=backend,
    )
    directory = run(swept, tmp_path, Recorder())
    as_another_version(monkeypatch, runs_others=False)
    table = directory / "results.csv"
    rows = table.read_text().splitlines(keepends=True)
    table.write_text("".join(rows[:-1]))
    ((system, repeat),) = go_on(directory)
    assert f",{repeat},0,{system}," in rows[-1]
    assert set(read(directory).results.version) == {"another"}
    assert len(read(directory).iterations) == 6
    assert read_metadata(directory)["resumed"][-1]["unchanged"] == 5
    assert not (directory / "superseded-results.csv").exists()


def test_only_cells_whose_deployment_has_changed_run_again(tmp_path, monkeypatch):
    directory = run(simulated(tmp_path, emulation__repeats=2), tmp_path, Recorder())
    as_another_version(monkeypatch, runs_others=False)
    ring = registry["ring"]

    def other(job, fabric):
        return replace(ring.plan(job, fabric), pipelining=Pipelining(credit=1))

    monkeypatch.setitem(registry, "ring", replace(ring, plan=other))
    assert go_on(directory) == [("ring", 0), ("ring", 1)]
    assert go_on(directory) == []


def test_the_version_follows_the_files_that_are_named(swept, tmp_path):
    from testbed.campaign.version import _content, version

    before = version(swept)
    trace = tmp_path / "tiny.trace"
    trace.write_text(trace.read_text() + "\n")
    _content.cache_clear()
    assert version(swept) != before
    _content.cache_clear()


def test_a_workload_that_changes_within_a_process_is_another_version(swept, tmp_path):
    first = run(swept, tmp_path / "first", Recorder())
    trace_file(tmp_path, 120)
    again = run(swept, tmp_path / "again", Recorder())
    assert set(read(again).results.version).isdisjoint(read(first).results.version)
    trace_file(tmp_path, 60)
    assert len(go_on(again)) == 6


def test_another_file_may_ask_for_more(swept, tmp_path):
    directory = run(swept, tmp_path, Recorder())
    sweep = {"jobs.0.system": ["ring", "atp"], "fabric.ina": ["all", "none"]}
    more = simulated(tmp_path, sweep=sweep, emulation__repeats=3)
    ran = go_on(directory, more)
    # All ToRs aggregate by default: the two systems have run like that, twice each.
    assert len(ran) == 2 * 2 * 3 - 2 * 2
    rows = read(directory).results
    assert set(rows.system) == {"ring", "atp"}
    assert set(rows.settings.str.contains("fabric.ina")) == {True}
    assert go_on(directory) == []


def test_a_directory_belongs_to_one_run_at_a_time(swept, tmp_path, monkeypatch):
    directory = run(swept, tmp_path, Recorder(most=1))
    monkeypatch.setattr(resume, "PATIENCE_S", 0.0)
    with (
        resume.held(directory),
        pytest.raises(DeploymentError, match="another run writes there"),
    ):
        Resumed(directory, None, Rules())
    Resumed(directory, None, Rules())


def test_a_directory_without_a_run_is_refused(tmp_path):
    with pytest.raises(Unreadable, match=r"wanted the directory of a run$"):
        Resumed(tmp_path, None, Rules())
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner/results.csv").touch()
    with pytest.raises(Unreadable, match=r"the last run below it is .*/inner$"):
        Resumed(tmp_path, None, Rules())


def test_a_strange_directory_is_left_as_it_is(tmp_path):
    (tmp_path / "results.csv").write_text("name,score\nann,1\nbob,2")
    with pytest.raises(Unreadable, match="cannot be resumed"):
        Resumed(tmp_path, None, Rules())
    assert (tmp_path / "results.csv").read_text().endswith("bob,2")


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("iterations.csv", b"tiny", b"\xff\xfe"),
        ("iterations.csv", b"1.0", b"atp"),
        ("results.csv", b'{""', b"{nan"),
        ("results.csv", b"cell,", b"sell,"),
        ("run.json", b"{", b"["),
        ("digests.csv", b"cell,", b"sell,"),
        ("digests.csv", b"every", b"\xff"),
        ("links.csv", b"cell,", b"sell,"),
        ("experiment.yaml", b"name:", b"nome:"),
    ],
)
def test_a_damaged_directory_is_refused_as_it_is(name, old, new, swept, tmp_path):
    directory = run(swept, tmp_path, Recorder(most=2))
    path = directory / name
    damaged = path.read_bytes().replace(old, new)
    assert damaged != path.read_bytes()
    path.write_bytes(damaged)
    with pytest.raises(Unreadable):
        Resumed(directory, None, Rules())
    assert path.read_bytes() == damaged


def test_an_empty_table_of_results_is_that_of_a_run_that_has_just_begun(swept, tmp_path):
    directory = run(swept, tmp_path, Recorder(most=2))
    (directory / "results.csv").write_bytes(b"")
    assert len(go_on(directory)) == 6


@pytest.mark.parametrize("kept", [b"", b"cell,repeat\n"])
def test_a_table_of_links_without_rows_of_links_is_written_anew(kept, swept, tmp_path):
    directory = run(swept, tmp_path, Recorder(most=2))
    (directory / "links.csv").write_bytes(kept)
    assert len(go_on(directory)) == 4


def test_each_cell_runs_in_a_fresh_process(swept, tmp_path, monkeypatch):
    """The next cell does not see what a cell leaves in memory."""
    seen: list[int] = []

    def run_cell(cell, deployment, log_dir, recording):
        seen.append(os.getpid())
        return made_up(cell, deployment, error=f"{len(seen)} {os.getpid()}")

    monkeypatch.setattr(local, "run_cell", run_cell)
    rows = read(run(swept, tmp_path, Local())).results
    assert set(rows.error.str.split().str[0]) == {"1"}
    assert rows.error.nunique() == 6
    assert seen == []


def test_plans_are_made_once_for_all_repeats(swept, monkeypatch):
    made = []

    def counting(experiment, fabric):
        made.append(experiment)
        return deploy(experiment, fabric)

    monkeypatch.setattr(deployments, "deploy", counting)
    assert len(planning.plan(expand(swept))) == 6
    assert len(made) == 3


def test_a_workload_that_is_gone_is_told(swept, tmp_path):
    directory = run(swept, tmp_path, Recorder(most=1))
    (tmp_path / "tiny.trace").unlink()
    with pytest.raises(Unreadable, match=r"cannot be resumed: .*tiny\.trace"):
        go_on(directory)


def test_another_experiment_is_refused(swept, tmp_path):
    directory = run(swept, tmp_path, Recorder())
    with pytest.raises(Unreadable, match="found the experiment other for a run of tiny"):
        go_on(directory, simulated(tmp_path, name="other"))
    assert len(read(directory).results) == 6


def test_tables_of_a_finished_run_are_in_the_order_of_the_cells(tmp_path):
    class Backwards(Recorder):
        """Cells end in the opposite order."""

        def outcomes(self, cells, logs, recording, started):
            for each, made in reversed([*super().outcomes(cells, logs, recording, started)]):
                (row,) = made.jobs
                yield each, replace(made, jobs=[replace(row, error='"quotes", and a comma')])

    asked = simulated(tmp_path, emulation__repeats=2)
    directory = run(asked, tmp_path, Backwards())
    order = [(each.id, each.repeat) for each in expand(asked)]
    tables = read(directory)
    for table in (tables.results, tables.iterations):
        assert list(zip(table.cell, table.repeat, strict=True)) == order
    assert set(tables.results.error) == {'"quotes", and a comma'}
