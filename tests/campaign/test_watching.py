"""Time left, ranking so far, and ``watch``."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from collections import deque
from shutil import copytree

import pytest
import yaml
from tiny import data
from verbs import invoke

import testbed
from testbed import results
from testbed.campaign import journal as journal_module
from testbed.campaign.journal import FINISHED, PLANNED, SESSION, STARTED, Journal, read
from testbed.campaign.resume import held
from testbed.campaign.standings import Standing, Standings, records
from testbed.results import CellEvent


def campaign(seconds, repeats, cores, seed=1, expected=None):
    """The events of a campaign whose cells take ``seconds``, within 10 %, and are expected to take
    1 s each, or ``expected``."""
    draw = random.Random(seed)
    orders = [draw.sample([*seconds], len(seconds)) for _ in range(repeats)]
    planned = [(cell, repeat) for repeat, order in enumerate(orders) for cell in order]
    yield CellEvent(0.0, SESSION)
    for cell, repeat in planned:
        yield CellEvent(0.0, PLANNED, cell, repeat, (expected or {}).get(cell, 1.0), cell)
    now, waiting, running = 0.0, deque(planned), {}
    while waiting or running:
        while waiting and len(running) < cores:
            key = waiting.popleft()
            running[key] = now + seconds[key[0]] * draw.uniform(0.9, 1.1)
            yield CellEvent(now, STARTED, *key, 1.0)
        ended = min(running, key=running.__getitem__)
        now = running.pop(ended)
        yield CellEvent(now, FINISHED, *ended, 1.0)


ALIKE, UNLIKE = [7.0] * 10, [1.0, 2.0, 30.0, 4.0, 9.0]


@pytest.mark.parametrize(
    ("seconds", "cores"), [(ALIKE, 1), (ALIKE, 2), (ALIKE, 8), (UNLIKE, 1), (UNLIKE, 2)]
)
@pytest.mark.parametrize("laid_out", [True, False], ids=["one by one", "in sums"])
def test_the_time_left_is_right_within_a_fifth(seconds, cores, laid_out, monkeypatch):
    monkeypatch.setattr(journal_module, "_MOST_LAID_OUT", 500 if laid_out else 0)
    cells = {f"c{number}": each for number, each in enumerate(seconds)}
    events = [*campaign(cells, 12, cores)]
    end, journal, checked = events[-1].at, Journal(), 0
    for event in events:
        journal.record(event)
        # Until each cell has run once, and when few are left, chance decides.
        if event.event == FINISHED and 0.2 * end < event.at < 0.8 * end:
            assert journal.left_s(event.at) == pytest.approx(end - event.at, rel=0.2)
            checked += 1
    assert checked > 20
    assert journal.left == 0
    assert journal.left_s(end) == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize("seed", range(4))
def test_the_time_left_is_right_when_unlike_cells_run_once(cores, seed):
    """The expected times are right for the size, but wrong for the system and for the machine."""
    slower = {"ps": 0.5, "ring": 1.0, "atp": 3.0, "switchml": 2.0}
    sizes = {f"synthetic/{size}MB": size for size in (1, 3, 10, 30)}
    expected = {
        f"{system} {workload} workers={workers}": 0.1 + size * workers / 40
        for system in slower
        for workload, size in sizes.items()
        for workers in (2, 4, 8)
    }
    took = {title: 3 * slower[title.split()[0]] * each for title, each in expected.items()}
    assert len(took) == 48
    events = [*campaign(took, 1, cores, seed, expected)]
    end = events[-1].at
    for share in (0.25, 0.5, 0.75):
        now = share * end
        journal = Journal(event for event in events if event.at <= now)
        assert journal.left_s(now) == pytest.approx(end - now, rel=0.2), share


def test_expected_times_count_until_a_cell_has_ended():
    journal = Journal([CellEvent(0.0, SESSION)])
    for cell, expected_s in (("a", 4.0), ("b", 8.0), ("c", 2.0)):
        journal.record(CellEvent(0.0, PLANNED, cell, 0, expected_s))
    assert journal.left_s(0.0) == pytest.approx(14.0)
    for event in (CellEvent(0.0, STARTED, "a", 0), CellEvent(12.0, FINISHED, "a", 0)):
        journal.record(event)
    assert journal.left_s(12.0) == pytest.approx(30.0)  # three times as long as expected
    journal.record(CellEvent(12.0, STARTED, "b", 0))
    assert journal.left_s(17.0) == pytest.approx(25.0)
    assert journal.left_s(100.0) == pytest.approx(6.0)  # it must end at any moment


def test_cells_that_ran_side_by_side_once_do_not_halve_the_time_left():
    """Emulated cells run alone, and few others beside them."""
    cells = [f"c{number}" for number in range(10)]
    journal = Journal([CellEvent(0.0, SESSION)])
    for cell in (*cells, "a", "b"):
        journal.record(CellEvent(0.0, PLANNED, cell, 0, 10.0))
    for number, cell in enumerate(cells[:5]):
        journal.record(CellEvent(10.0 * number, STARTED, cell, 0))
        journal.record(CellEvent(10.0 * (number + 1), FINISHED, cell, 0))
    for cell in ("a", "b"):
        journal.record(CellEvent(50.0, STARTED, cell, 0))
    assert journal.left_s(50.0) == pytest.approx(60.0)


def test_the_time_left_while_no_cell_runs():
    """Others may hold a scheduler's machines, or the run its lock after its last cell."""
    journal = Journal([CellEvent(0.0, SESSION)])
    for cell in "ab":
        journal.record(CellEvent(0.0, PLANNED, cell, 0, 1.0))
    for event in (CellEvent(0.0, STARTED, "a", 0), CellEvent(1.0, FINISHED, "a", 0)):
        journal.record(event)
    assert journal.left_s(25.0) == pytest.approx(25.0)  # a second of work takes 25
    for event in (CellEvent(25.0, STARTED, "b", 0), CellEvent(26.0, FINISHED, "b", 0)):
        journal.record(event)
    assert journal.left_s(90.0) == 0


def test_a_new_session_forgets_the_one_before():
    journal = Journal(campaign({"a": 1.0, "b": 2.0}, 2, 1))
    for event in (CellEvent(9.0, SESSION), CellEvent(9.0, PLANNED, "b", 1, 5.0)):
        journal.record(event)
    assert journal.left == 1
    assert journal.left_s(9.0) == pytest.approx(5.0)


@pytest.mark.parametrize("expected_s", [float("inf"), float("nan"), 1e308])
def test_an_event_with_a_time_that_no_cell_takes_does_not_count(tmp_path, expected_s):
    run = results.RunDirectory.create(tmp_path, "tiny")
    run.append_events([CellEvent(0.0, PLANNED, "a", 0, expected_s), CellEvent(0.0, PLANNED, "b")])
    found = read(run.path)
    assert [*found.titles] == [("b", 0)]
    assert found.left_s(1.0) == 0


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run of two systems at two shares of INA, with three repeats."""
    folder = tmp_path_factory.mktemp("watched")
    asked = data(folder, backend="simulate", emulation__repeats=3)
    asked["sweep"] = {"fabric.ina": ["none", "all"], "jobs.0.system": ["ring", "atp"]}
    path = folder / "tiny.yaml"
    path.write_text(yaml.safe_dump(asked))
    found = testbed.run(path, folder / "results").results
    return found, next((folder / "results" / "tiny").iterdir())


def test_a_run_keeps_a_journal_and_its_ranking(finished):
    rows, run = finished
    journal = read(run)
    assert journal.ended == len(rows) == 12
    assert (journal.left, journal.running) == (0, {})
    standings = Standings({"atp": "ATP"})
    for row in records(run):
        standings.add(row)
    assert standings.counts == "12 rows valid"
    settings = dict(standings)
    assert len(settings) == 2
    for setting, ranked in settings.items():
        ina = 2 if "INA at 2/2 ToRs" in setting else 0
        means = rows[rows.ina_tors == ina].groupby("system").jct_s.mean().sort_values()
        assert [each.jct_s for each in ranked] == pytest.approx(list(means))
        assert {each.name for each in ranked} == {"ATP", "ring"}
        for each in ranked:
            low, high = each.interval
            assert low <= each.jct_s * (1 + 1e-9)
            assert high >= each.jct_s * (1 - 1e-9)
            assert each.repeats == 3


def test_places_of_inas_other_than_tors_are_told_apart():
    standings = Standings({"atp": "ATP"})
    row = {
        "cell": "c", "repeat": "0", "job": "0", "system": "atp", "workload": "resnet50",
        "topology": "leaf-spine", "workers": "4", "tors": "4", "ina_tors": "4", "switches": "8",
        "backend": "simulate", "jct_s": "1", "verdict": "valid", "verified": "", "error": "",
    }  # fmt: skip
    for switches in ("4", "8"):
        settings = f'{{"fabric.ina": {switches}}}'
        standings.add(row | {"ina_switches": switches, "settings": settings})
    said = [setting for setting, _ in standings]
    assert ["4/4 ToRs" in said[0], "8/8 switches" in said[1]] == [True, True]
    other = '{"jobs.1.workload": "bert-base"}'
    standings.add(row | {"ina_switches": "4", "settings": other})
    assert "job 1 workload=bert-base" in [setting for setting, _ in standings][-1]
    standings.add(row | {"job": "1", "jct_s": "2", "ina_switches": "4", "settings": "{}"})
    assert [setting.split(",")[0] for setting, _ in standings] == ["job 0"] * 3 + ["job 1"]


def test_traces_with_one_name_in_two_folders_are_told_apart():
    standings = Standings({"ring": "Ring"})
    row = {
        "cell": "c", "repeat": "0", "job": "0", "system": "ring", "topology": "leaf-spine",
        "workers": "4", "tors": "4", "ina_tors": "0", "backend": "simulate", "verdict": "valid",
        "verified": "", "error": "", "settings": "{}",
    }  # fmt: skip
    first = row | {"workload": "/x/a/m.trace", "jct_s": "1"}
    standings.add(first)
    assert [setting.split(",")[0] for setting, _ in standings] == ["m"]
    standings.add(row | {"workload": "/x/b/m.trace", "jct_s": "3"})
    assert [setting.split(",")[0] for setting, _ in standings] == ["a/m", "b/m"]
    assert [each.jct_s for each in standings.of(first)] == [1.0]


def watched(run):
    done = invoke("watch", run, "--once")
    assert done.exit_code == 0, done.output
    return done.output


def test_watch_after_during_and_instead(finished, tmp_path):
    _, run = finished
    said = watched(run.parents[1])
    assert said.startswith(f"{run}: 12 of 12 cells done\n12 rows valid\n")
    assert "Ring" in said
    assert "3 repeats" in said
    copied = tmp_path / "run"
    copied.mkdir()
    for name in ("results.csv", "run.json", "experiment.yaml", "cells.csv"):
        (copied / name).write_bytes((run / name).read_bytes())
    rows = (copied / "results.csv").read_text().splitlines(keepends=True)
    events = (copied / "cells.csv").read_text().splitlines(keepends=True)
    # The last cell runs, one has failed, and a row and an event are just being written.
    failed = rows[1].replace(",valid,", ",,").replace("sim", "sim", 1)
    (copied / "results.csv").write_text("".join([rows[0], failed, *rows[2:-1], rows[-1][:20]]))
    (copied / "cells.csv").write_text("".join([*events[:-1], events[-1][:9]]))
    (copied / "run.json").write_text('{"schema_version": 1, "finished_at": null}')
    assert "11 of 12 cells done; it was interrupted" in watched(copied)
    with held(copied):
        said = watched(copied)
    assert "11 of 12 cells done, 1 running, about " in said
    assert "10 rows valid, 1 not valid" in said
    assert "\nrunning for " in said


def test_a_run_that_was_killed_as_it_began_is_no_last_run(finished, tmp_path):
    _, run = finished
    copytree(run, tmp_path / "good")
    (tmp_path / "killed").mkdir()
    (tmp_path / "killed" / results.RESULTS).write_bytes((run / results.RESULTS).read_bytes())
    assert "good: 12 of 12 cells done" in watched(tmp_path)


def test_watch_of_what_is_no_run_is_told(tmp_path):
    done = invoke("watch", tmp_path, "--once")
    assert done.exit_code == 2
    assert "found no results.csv" in done.output
    (tmp_path / results.RESULTS).write_text("a,b\n1,2\n")
    (tmp_path / results.EXPERIMENT).write_text("")
    done = invoke("watch", tmp_path, "--once")
    assert done.exit_code == 2
    assert "found no column" in done.output


def test_the_progress_line_says_who_leads(finished, tmp_path, capsys):
    _, run = finished
    testbed.run(run / "experiment.yaml", tmp_path, progress=True)
    (last,) = (
        line
        for line in capsys.readouterr().err.splitlines()
        if line.startswith("[12/12] ") and ": JCT" in line
    )
    assert "; so far " in last
    assert all(name in last for name in ("Ring ", "ATP "))


@pytest.mark.parametrize(
    ("times", "said"),
    [
        ((2.0,), "A 2 s"),
        ((2.0, 2.0, 2.0), "A 2 s"),
        ((1.0, 2.0, 3.0), r"A 2 s \(1\S* to [23]\S*\)"),
    ],
)
def test_an_interval_is_told_if_it_is_one(times, said):
    assert re.fullmatch(said, str(Standing("A", times)))


def test_running_a_campaign_does_not_load_the_library_that_draws():
    """Loading it takes long, and would decide how a notebook shows figures."""
    code = "import sys, testbed.campaign.evaluation; assert 'matplotlib' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
