"""Changes between two sets of results, and rows that cannot be compared."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import yaml
from tiny import experiment
from verbs import invoke

from testbed.backends.recording import NOTHING
from testbed.campaign import local
from testbed.campaign.cell import describe
from testbed.campaign.evaluation import New
from testbed.deployment.experiments import read
from testbed.experiment.cells import expand
from testbed.experiment.load import dump
from testbed.machine.verdict import Symptoms, verdict
from testbed.placement.deployments import Deployments
from testbed.results import RunDirectory
from testbed.run_tables import Unreadable
from testbed.studies import baseline
from testbed.studies.comparison import compare, tolerances

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
JCTS = {"ps": 4.0, "ring": 2.0, "atp": 1.0}


def made_up(
    folder: Path,
    jcts: Mapping[str, float] = JCTS,
    verdicts: Mapping[str, str] | None = None,
    errors: Mapping[str, str] | None = None,
    **changes,
) -> Path:
    """A run with the given time of every system; the closed form expects one second."""
    folder.mkdir(exist_ok=True)
    changes = {"backend": "simulate", "emulation__repeats": 2} | changes
    asked = experiment(
        folder,
        **{"sweep": {"jobs.0.system": list(jcts)}} | changes,
    )
    directory = RunDirectory.create(folder, "run")
    directory.write("experiment.yaml", dump(asked))
    for cell in expand(asked):
        for row in describe(cell, Deployments().of(cell.experiment)):
            error = (errors or {}).get(row.system, "")
            verdict = (verdicts or {}).get(row.system, "valid")
            row = replace(
                row,
                # Each run has its own copy of the same trace.
                workload="tiny",
                jct_s=None if error else jcts[row.system],
                expected_jct_s=1.0,
                verified=not error,
                verdict="failed" if error else verdict,
                error=error,
            )
            directory.append([row])
    return directory.path


@pytest.fixture
def base(tmp_path) -> Path:
    return made_up(tmp_path / "base")


def test_nothing_moves_between_a_run_and_itself(base):
    done = invoke("compare", base, base, "--tolerance", "0", "--all")
    assert done.exit_code == 0, done.output
    assert "ps / closed form" in done.output
    assert "ring / ps" in done.output
    assert "ring, JCT (s)" in done.output
    assert "0 of 8 figures moved" in done.output


def test_a_system_that_became_slower_is_shown_against_the_reference_and_the_closed_form(
    base, tmp_path
):
    new = made_up(tmp_path / "new", {**JCTS, "atp": 1.3})
    done = invoke("compare", base, new)
    assert done.exit_code == 1
    lines = done.output.splitlines()
    assert "tiny, 4 workers" in lines[0]
    assert [line.split("  ")[1].strip() for line in lines[1:4]] == [
        "atp / closed form",
        "atp, JCT (s)",
        "atp / ps",
    ]
    assert "0.2500 ->   0.3250" in lines[3]
    assert "+30.0%" in lines[3]
    assert lines[-1] == "3 of 8 figures moved"
    assert invoke("compare", base, new, "--tolerance", "31%").exit_code == 0
    assert invoke("compare", base, new, "--tolerance", "simulate=0.31").exit_code == 0
    assert invoke("compare", base, new, "--tolerance", "emulate=0.31").exit_code == 1


def test_seconds_do_not_count_only_ratios_do(base):
    slow = baseline.load(base)
    slow.rows["jct_s"] *= 2
    slow.rows["expected_jct_s"] *= 2
    moved = compare(baseline.load(base), slow, tolerances(["0"])).moved
    assert {each.name for each in moved} == {f"{system}, JCT (s)" for system in JCTS}
    emulated = baseline.load(base)
    emulated.rows["backend"] = slow.rows["backend"] = "emulate"
    assert compare(emulated, slow, tolerances(["0"])).moved == []


def test_growth_and_shrinkage_are_measured_alike(base, tmp_path):
    new = made_up(tmp_path / "new", {**JCTS, "atp": 1.09})
    both = baseline.load(base), baseline.load(new)
    for allowed, moved in [("8%", 3), ("8.5%", 3), ("10%", 0)]:
        for first, second in (both, both[::-1]):
            assert len(compare(first, second, tolerances([allowed])).moved) == moved


def test_rows_that_are_not_valid_are_left_out_and_said(base, tmp_path):
    new = made_up(tmp_path / "new", {**JCTS, "atp": 9.0}, verdicts={"atp": "processor busy"})
    done = invoke("compare", base, new)
    assert done.exit_code == 0, done.output
    assert "left out of NEW, not valid" in done.output
    assert "atp: processor busy" in done.output
    assert "0 of 5 figures moved" in done.output
    both = made_up(tmp_path / "both", verdicts={"atp": "processor busy", "ps": "links slow"})
    left_out = invoke("compare", base, both).output
    assert "atp: processor busy" in left_out and "ps: links slow" in left_out


def test_what_failed_and_did_not_before_has_moved(base, tmp_path):
    new = made_up(tmp_path / "new", errors={"atp": "a rank died"})
    done = invoke("compare", base, new)
    assert done.exit_code == 1
    assert "failed in NEW" in done.output
    assert "atp: a rank died" in done.output
    assert done.output.splitlines()[-1].endswith("1 system failed that did not before")
    assert invoke("compare", new, base).exit_code == 0


NEEDLESS = verdict(Symptoms(resent=300, sent=1000))


@pytest.mark.parametrize("known", [True, False], ids=["in BASE", "only in NEW"])
def test_what_sends_again_without_loss_fails(known, base, tmp_path):
    before = base if known else made_up(tmp_path / "less", {"ps": 4.0, "ring": 2.0})
    new = made_up(tmp_path / "new", verdicts={"atp": NEEDLESS})
    done = invoke("compare", before, new)
    assert done.exit_code == 1
    assert f"atp: {NEEDLESS}" in done.output
    assert done.output.splitlines()[-1].endswith("1 system retransmitted without loss")


def test_one_repeat_that_sends_again_is_left_out(base, tmp_path):
    new = baseline.load(made_up(tmp_path / "new"))
    new.rows.loc[(new.rows["system"] == "atp") & (new.rows["repeat"] == 0), "verdict"] = NEEDLESS
    found = compare(baseline.load(base), new, tolerances([]))
    assert found.passed
    assert [reason for *_, reason in found.left_out] == [NEEDLESS]


def test_settings_of_one_side_only_are_listed(base, tmp_path):
    new = made_up(tmp_path / "new", {"ps": 4.0, "ring": 2.0, "netreduce": 1.0})
    done = invoke("compare", base, new)
    assert done.exit_code == 1
    assert done.output.splitlines()[-1].endswith("1 system of BASE not in NEW (see --partial)")
    done = invoke("compare", base, new, "--partial")
    assert done.exit_code == 0
    assert [line.rpartition(": ")[2] for line in done.output.splitlines() if "only in" in line] == [
        "atp",
        "netreduce",
    ]
    wide = made_up(tmp_path / "wide", jobs__0__workers=5)
    both = made_up(tmp_path / "both", sweep={"jobs.0.system": list(JCTS), "jobs.0.workers": [4, 5]})
    only = compare(baseline.load(wide), baseline.load(both), tolerances([])).only
    assert {(side, setting.partition(" workers")[0][-1]) for side, setting, _ in only} == {
        ("NEW", "4")
    }


def test_jobs_that_share_a_fabric_are_compared_with_their_like(tmp_path):
    def shared(name, jcts):
        job = {"system": "ring", "workload": str(tmp_path / name / "tiny.trace"), "workers": 2}
        return made_up(
            tmp_path / name,
            jcts,
            jobs=[{**job, "iterations": 2}, {**job, "system": "ps", "iterations": 2}],
            fabric__hosts_per_leaf=[3, 3],
            sweep={"jobs.0.system": ["ring", "atp"]},
        )

    base, new = shared("base", JCTS), shared("new", {**JCTS, "atp": 2.0})
    found = compare(baseline.load(base), baseline.load(new), tolerances([]))
    moved = {"atp / closed form", "atp / ring", "atp, JCT (s)"}
    assert {each.name for each in found.moved} == moved
    assert all("beside ps tiny" in each.setting for each in found.moved)


@pytest.mark.parametrize("systems", ["ring switchml atp", "atp ring atp"])
def test_three_jobs_that_share_a_fabric_are_compared_with_their_baseline(systems, tmp_path):
    trace = str(tmp_path / "tiny.trace")
    jobs = [{"system": each, "workload": trace, "workers": 2} for each in systems.split()]
    times = dict.fromkeys(systems.split(), 2.0)
    base = made_up(tmp_path, times, jobs=jobs, fabric__hosts_per_leaf=[5, 5], sweep=None)
    file = tmp_path / "baseline.json"
    assert invoke("baseline", base, "-o", file).exit_code == 0
    for one, other in ((base, file), (file, base)):
        done = invoke("compare", one, other, "--tolerance", "0")
        assert done.exit_code == 0, done.output
        assert "only in" not in done.output
        assert "0 of 6 figures moved" in done.output


def test_a_stored_baseline_says_the_same_as_the_directory(base, tmp_path):
    file = tmp_path / "baseline.json"
    done = invoke("baseline", base, "-o", file)
    assert done.exit_code == 0, done.output
    assert "6 valid rows" in done.output
    assert invoke("compare", file, base, "--tolerance", "0").exit_code == 0
    assert invoke("compare", base, file, "--tolerance", "0").exit_code == 0
    new = made_up(tmp_path / "new", {**JCTS, "atp": 1.3})
    assert invoke("compare", file, new).output == invoke("compare", base, new).output
    assert sum(line.startswith('  ["') for line in file.read_text().splitlines()) == 6


def test_a_baseline_replaces_no_file_of_another_kind(base, tmp_path):
    mine = tmp_path / "first.yaml"
    mine.write_text("name: mine\n")
    done = invoke("baseline", base, "-o", mine)
    assert done.exit_code == 2
    assert "wanted a name that ends in .json" in done.output
    assert mine.read_text() == "name: mine\n"


def test_only_valid_rows_are_stored(tmp_path):
    mixed = made_up(tmp_path / "mixed", verdicts={"atp": "processor busy"})
    file = tmp_path / "baseline.json"
    assert invoke("baseline", mixed, "-o", file).exit_code == 0
    assert set(baseline.load(file).rows.system) == {"ps", "ring"}
    bad = made_up(tmp_path / "bad", verdicts=dict.fromkeys(JCTS, "processor busy"))
    done = invoke("baseline", bad, "-o", tmp_path / "none.json")
    assert done.exit_code == 2
    assert "found no valid row" in done.output


def test_fields_that_the_stored_experiment_lacks_have_their_defaults(base, tmp_path):
    file = tmp_path / "baseline.json"
    invoke("baseline", base, "-o", file)
    content = json.loads(file.read_text())
    for stored in (run["experiment"] for run in content["runs"]):
        del stored["jobs"][0]["placement"], stored["fabric"]["slots"]
    file.write_text(json.dumps(content))
    done = invoke("compare", file, base)
    assert done.exit_code == 0, done.output
    assert "only in" not in done.output


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("nothing", None, "found no"),
        ("text.json", "hello", "found no JSON"),
        ("list.json", "[]", "found no stored baseline"),
        ("other.json", '{"some": "thing"}', "found no stored baseline"),
        ("old.json", '{"schema_version": 0}', "wanted 1"),
        (
            "short.json",
            '{"schema_version": 1, "columns": ["cell"], "runs": [{"rows": []}]}',
            "jct_s",
        ),
        ("empty.json", '{"schema_version": 1, "columns": [], "runs": []}', "found no stored"),
    ],
)
def test_what_is_no_baseline_is_told(name, text, words, base, tmp_path):
    path = tmp_path / name
    if text is not None:
        path.write_text(text)
    done = invoke("compare", path, base)
    assert done.exit_code == 2
    assert words in done.output
    assert name in done.output


def test_a_directory_without_results_is_told(base, tmp_path):
    (tmp_path / "empty").mkdir()
    done = invoke("compare", base, tmp_path / "empty")
    assert done.exit_code == 2
    assert "results.csv" in done.output


def test_an_experiment_that_cannot_be_read_is_told(base, tmp_path):
    """Without it, rows looked as if they were of another experiment."""
    damaged = made_up(tmp_path / "damaged") / "experiment.yaml"
    damaged.write_text("jobs: [\n")
    done = invoke("compare", base, damaged.parent)
    assert done.exit_code == 2
    assert f"{damaged}:2:1: found a syntax error" in done.output


def test_in_virtual_time_the_same_repeats_are_compared(tmp_path):
    base = made_up(tmp_path / "base")
    table = pd.read_csv(base / "results.csv", dtype={"cell": str})
    table.loc[table["repeat"] == 1, "jct_s"] *= 1.5  # another draw
    table.to_csv(base / "results.csv", index=False)
    fewer = made_up(tmp_path / "fewer", emulation__repeats=1)
    for one, other in ((base, fewer), (fewer, base)):
        done = invoke("compare", one, other)
        assert done.exit_code == 0, done.output
        rows = "3 valid rows of repeats or seeds that only BASE or only NEW has"
        assert f"not compared: {rows}" in done.output


@pytest.fixture(scope="module")
def with_seeds(tmp_path_factory) -> Path:
    """Seeds 1 to 3 of a ring that loses packets."""
    folder = tmp_path_factory.mktemp("seeds")
    asked = {"backend": "packet", "jobs__0__system": "ring", "emulation__loss": 0.01}
    made = experiment(folder, **asked, sweep={"emulation.seed": [1, 2, 3]})
    directory, failures = New(made, folder).run(NOTHING, local.Local(), quiet=True)
    assert not failures
    return directory


@pytest.mark.parametrize("stored", [False, True])
def test_the_same_seeds_are_compared(stored, with_seeds, tmp_path):
    """In virtual time a seed is another draw, as a repeat is."""

    def kept(name, left):
        side = baseline.load(with_seeds)
        seeds = side.rows["settings"].map(lambda text: json.loads(text)["emulation.seed"])
        side = replace(side, rows=side.rows[seeds.isin(left)])
        if stored:
            baseline.save(side, tmp_path / name)
            side = baseline.load(tmp_path / name)
        return side

    base, fewer = kept("base", [1, 2, 3]), kept("fewer", [1, 2])
    assert base.rows["jct_s"].nunique() == 3
    for one, other, alone in ((base, base, 0), (base, fewer, 1), (fewer, base, 1)):
        found = compare(one, other, tolerances(["0"]))
        assert (found.moved, found.parted, found.only) == ([], [], [])
        assert found.unpaired == alone


def test_an_experiments_own_seed_is_paired_with_a_swept_one(with_seeds, tmp_path):
    asked = {"backend": "packet", "jobs__0__system": "ring", "emulation__loss": 0.01}
    trace = {"jobs__0__workload": str(with_seeds.parents[1] / "tiny.trace")}
    made = experiment(tmp_path, **asked, **trace, emulation__seed=2)
    alone, _ = New(made, tmp_path).run(NOTHING, local.Local(), quiet=True)
    found = compare(baseline.load(with_seeds), baseline.load(alone), tolerances(["0"]))
    assert (found.moved, found.parted, found.unpaired) == ([], [], 2)


def test_results_that_have_nothing_in_common_are_not_equal(base, tmp_path):
    other = made_up(tmp_path / "other", jobs__0__workers=5)
    done = invoke("compare", base, other)
    assert done.exit_code == 2
    words = " ".join(done.output.split())
    assert "found nothing of BASE in NEW (workers 4 and not 5)," in words
    bad = made_up(tmp_path / "bad", verdicts=dict.fromkeys(JCTS, "processor busy"))
    assert invoke("compare", base, bad).exit_code == 2
    assert invoke("compare", bad, base).exit_code == 2


@pytest.mark.parametrize("text", ["much", "-1", "inf", "10", "simulation=1%", "10 %%"])
def test_a_bad_tolerance_is_told(text, base):
    done = invoke("compare", base, base, "--tolerance", text)
    assert done.exit_code == 2
    assert "wanted a share" in done.output


def test_a_later_tolerance_counts():
    assert tolerances(["0.5", "emulate=30%"]) == {
        "simulate": 0.5,
        "packet": 0.5,
        "emulate": pytest.approx(0.3),
    }
    assert tolerances([]) == {
        "simulate": pytest.approx(0.01),
        "packet": pytest.approx(1e-5),
        "emulate": pytest.approx(0.1),
    }


def test_virtual_time_still_gives_what_the_committed_baseline_holds(tmp_path):
    """Everything that CI compares, except for cells that need root."""
    text = yaml.safe_load((EXPERIMENTS / "ci.yaml").read_text())
    text["sweep"]["product"]["backend"] = ["simulate", "packet"]
    del text["sweep"]["exclude"]
    (tmp_path / "ci.yaml").write_text(yaml.safe_dump(text))
    run, failed = New(read(tmp_path / "ci.yaml"), tmp_path).run(NOTHING, local.Local())
    assert failed == 0
    found = compare(
        baseline.load(EXPERIMENTS / "ci-baseline.json"), baseline.load(run), tolerances([])
    )
    assert found.moved == []
    assert {side for side, _, _ in found.only} <= {"BASE"}
    assert len(found.quantities) == 2 * (3 * 8 - 1)


def test_a_packet_run_that_changed_says_where_it_parts(tmp_path):
    runs = {}
    for name, loss in {"base": 0.01, "same": 0.01, "other": {"hosts": 0.01, "t1-s0": 0.01}}.items():
        folder = tmp_path / name
        folder.mkdir()
        trace = {"jobs__0__workload": str(tmp_path / "tiny.trace")}
        asked = {"backend": "packet", "jobs__0__system": "ring", "emulation__loss": loss}
        (folder / "tiny.yaml").write_text(dump(experiment(tmp_path, **asked, **trace)))
        runs[name], _ = New(read(folder / "tiny.yaml"), folder).run(NOTHING, local.Local())
    # Make it look as if the code had changed, not the losses.
    (runs["other"] / "experiment.yaml").write_text((runs["base"] / "experiment.yaml").read_text())
    stored = tmp_path / "stored.json"
    baseline.save(baseline.load(runs["base"]), stored)
    for before in (runs["base"], stored):
        same = compare(baseline.load(before), baseline.load(runs["same"]), tolerances([]))
        assert (same.moved, same.parted) == ([], [])
    done = invoke("compare", stored, runs["other"])
    assert done.exit_code == 1
    (said,) = [line for line in done.output.splitlines() if line.startswith("differs from BASE")]
    assert "ring: seed 1, repeat 1: packets " in said
    assert "; iteration 0 of rank" in said
    assert " bytes, before " in said
    assert "not run again: its experiment has no such cell" in said


def test_the_first_packets_that_changed_are_shown(tmp_path):
    runs = {}
    for name, delay in {"old": "1us", "new": "2us"}.items():
        (tmp_path / name).mkdir()
        asked = {"backend": "packet", "jobs__0__system": "atp", "fabric__ina": "all"}
        made = experiment(tmp_path, **asked, fabric__link_delay=delay)
        runs[name], _ = New(made, tmp_path / name).run(NOTHING, local.Local())
    stored = tmp_path / "stored.json"
    # Make it look as if the code had changed, not the delay.
    (runs["old"] / "experiment.yaml").write_text((runs["new"] / "experiment.yaml").read_text())
    baseline.save(baseline.load(runs["old"]), stored)
    done = invoke("compare", stored, runs["new"])
    (said,) = [line for line in done.output.splitlines() if line.startswith("differs from BASE")]
    found = re.search(
        r"packets (\d+) to (\d+) differ.*; now (\d+) at \S+ s on (\S+)>(\S+) \(", said
    )
    assert found, said
    first, last, shown = map(int, found.groups()[:3])
    assert 1 < first == shown < last  # hosts send their first windows as before
    (runs["new"] / "digests.csv").unlink()  # as older versions wrote no digests
    done = invoke("compare", stored, runs["new"])
    (said,) = [line for line in done.output.splitlines() if line.startswith("differs from BASE")]
    assert "iteration 0 of rank" in said and "packets" not in said.partition("repeat 1")[2]


def test_unreadable_is_raised_for_a_missing_file(tmp_path):
    with pytest.raises(Unreadable, match="wanted a results directory or a stored baseline"):
        baseline.load(tmp_path / "none")


@pytest.fixture(scope="module")
def in_packets(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("packets")
    directory, failures = New(experiment(folder, backend="packet"), folder).run(
        NOTHING, local.Local(), quiet=True
    )
    assert not failures
    return directory


@pytest.mark.parametrize(
    ("name", "column", "value", "said"),
    [
        ("digests.csv", "packets", "9" * 23, "wanted what `run` wrote"),
        ("digests.csv", "every", "0", "wanted what `run` wrote"),
        ("digests.csv", "digests", "", "wanted what `run` wrote"),
        ("iterations.csv", "rank", None, "found no number in iteration, rank or end_s"),
    ],
)
def test_a_damaged_record_is_told(name, column, value, said, in_packets, tmp_path):
    new = tmp_path / "new"
    shutil.copytree(in_packets, new)
    table = pd.read_csv(new / name, dtype={"cell": str})
    table = table.drop(columns=column) if value is None else table.assign(**{column: value})
    table.to_csv(new / name, index=False)
    for verb in (["compare", in_packets, new], ["baseline", new, "-o", tmp_path / "kept.json"]):
        done = invoke(*verb)
        assert done.exit_code == 2 and isinstance(done.exception, SystemExit), done.output
        assert said in done.output and name in done.output


@pytest.fixture
def diverging(in_packets, tmp_path) -> Path:
    """The same run with a packet more, and everything twice as late."""
    new = tmp_path / "new"
    shutil.copytree(in_packets, new)
    for name, column in (("iterations.csv", "end_s"), ("results.csv", "jct_s")):
        table = pd.read_csv(new / name, dtype={"cell": str})
        table[column] *= 2
        table.to_csv(new / name, index=False)
    table = pd.read_csv(new / "digests.csv", dtype={"cell": str})
    table["packets"] += 1
    table.to_csv(new / "digests.csv", index=False)
    return new


def test_an_experiment_of_another_version_is_not_run_again(in_packets, diverging):
    with (diverging / "experiment.yaml").open("a") as file:
        file.write("later: true\n")
    done = invoke("compare", in_packets, diverging)
    assert "this version cannot read its experiment" in done.output
    assert "pydantic" not in done.output


def test_only_the_first_cells_that_diverge_are_run_again(in_packets, diverging, monkeypatch):
    monkeypatch.setattr("testbed.studies.rerun.packets", lambda *_: "run again")
    for most, times in ((1, 1), (0, 0)):
        monkeypatch.setattr("testbed.studies.comparison.MOST_RERUN", most)
        done = invoke("compare", in_packets, diverging)
        assert done.output.count("run again") == times


def test_fields_swept_in_another_job_tell_cells_apart(tmp_path):
    job = {"workload": str(tmp_path / "run" / "tiny.trace"), "workers": 2, "iterations": 1}
    changes = {
        "backend": "packet",
        "emulation__repeats": 1,
        "jobs": [{"system": "ring", **job}, {"system": "ring", **job}],
        "sweep": {"jobs.1.start": ["0s", "50ms"]},
    }
    (tmp_path / "run").mkdir()
    asked = experiment(tmp_path / "run", **changes)
    path, failed = New(asked, tmp_path / "run").run(NOTHING, local.Local(), quiet=True)
    assert not failed
    other = shutil.copytree(path, tmp_path / "other")
    done = invoke("compare", path, other, "--all")
    assert done.exit_code == 0, done.output
    assert "differs" not in done.output
    assert done.output.count("job 1 start=") == 2
