"""Cases from seeds: a few of them are run here, and always those that once failed."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest
from verbs import invoke

from testbed.backends.packet import backend
from testbed.deployment.errors import DeploymentError
from testbed.experiment.schema import Experiment
from testbed.located import write
from testbed.studies.torture import cases, hunt, judges
from testbed.studies.torture.cases import case, deployed_seed, world
from testbed.studies.torture.hunt import CASE, Count, Hunt, keep
from testbed.studies.torture.judges import Judge, blocks, judged, judged_case, judged_seed
from testbed.studies.torture.shrink import shrunk
from testbed.studies.torture.trial import NO_WORLD, Bench, Verdict, deployed, judge
from testbed.systems import registry

KEPT = [
    json.loads(line) for line in (Path(__file__).parent / "kept.jsonl").read_text().splitlines()
]
SEEDS = 12


@pytest.fixture(scope="module")
def bench():
    return Bench()


@pytest.mark.parametrize("system", registry)
def test_a_few_seeds_of_each_system(system, bench):
    for seed in range(SEEDS):
        verdict = judged_case(case(system, seed), bench)
        assert not verdict.failure, (
            f"ina-testbed torture --system {system} --first {seed} --seeds 1"
        )


@pytest.mark.parametrize("kept", KEPT, ids=lambda kept: kept["id"])
def test_what_once_failed(kept, bench):
    verdict = judged_case(kept["case"], bench)
    assert not verdict.failure, f"{kept['id']}: {kept['why']}: {verdict.failure}"
    if kept.get("exact", True):
        assert not verdict.error


def test_no_process_is_begun_that_has_nothing_to_do(monkeypatch):
    begun = []

    class Counted(Judge):
        def __init__(self):
            super().__init__()
            begun.append(self)

    monkeypatch.setattr(judges, "Judge", Counted)
    assert len([*judged(blocks(["ring"], 0, 1), 64)]) == 1
    assert len(begun) == 1


def test_a_seed_is_the_same_case_and_the_same_run_each_time(bench):
    first, second = (case("atp", 7) for _ in range(2))
    assert first == second
    assert judged_case(first, bench) == judged_case(second, Bench())


@pytest.mark.parametrize("system", ["ring", "atp", "netreduce", "zero-dp", "omnireduce"])
def test_a_seed_is_judged_as_its_case_would_be(system, bench):
    """Seeds share what belongs to their world; a case in a file shares nothing."""
    for seed in (16, 17, 18):
        whole = case(system, seed)
        assert deployed_seed(system, seed).experiment == Experiment.model_validate(whole)
        assert judged_seed(system, seed, bench) == judged_case(whole, bench)


def test_after_a_crash_only_what_was_asked_is_judged(monkeypatch):
    def crashing(system, seed, bench):
        if seed == 17:
            os.kill(os.getpid(), signal.SIGKILL)
        return Verdict("", "", 1, 0.0)

    monkeypatch.setattr(judges, "judged_seed", crashing)
    found = [seed for _, seed, _ in judged(blocks(["atp"], 0, 20), 1)]
    assert found == list(range(20))


def test_sixteen_seeds_share_a_world_and_differ_in_their_faults():
    cases = [case("rina", seed) for seed in range(16)]
    assert all(each["jobs"] == cases[0]["jobs"] for each in cases)
    assert len({write(each) for each in cases}) > 8


def small(**emulation):
    return {
        "schema_version": 1,
        "name": "small",
        "backend": "packet",
        "fabric": {"kind": "leaf-spine", "spines": 1, "leaves": 2, "hosts_per_leaf": [2, 2],
                   "host_rate": "10Gbit"},
        "jobs": [{"system": "atp", "workload": "synthetic/3x16KB/0us", "workers": ["h0", "h2"],
                  "servers": ["h3"], "iterations": 1, "warmup": 0, "options": {}}],
        "emulation": {"scale": 1, **emulation},
    }  # fmt: skip


IMPAIRMENTS = ["loss", "duplication", "corruption", "reordering"]


@pytest.mark.parametrize("what", IMPAIRMENTS)
def test_each_impairment_happens_and_changes_no_sum(what, bench):
    fault = {"at": "0s", "until": "1ms", "link": "h0-t0", what: 0.3}
    deployment = deployed(small(faults=[fault]))
    with backend.assembled(deployment, make=bench.switch) as made:
        made.loop.run()
        ports = [port for _, port in backend.ports(made.simulation, deployment.fabric)]
        outcomes = made.loop.outcomes()
    assert not any(each.wrong for own in outcomes for each in own)
    if what != "reordering":
        name = {"loss": "lost", "duplication": "duplicated", "corruption": "corrupted"}[what]
        assert sum(getattr(port, name) for port in ports) > 0
    bench.free()


def test_faults_that_are_not_there_cost_nothing(bench):
    """The same packets are sent at the same times if a fault begins after the end."""
    plain, late = (
        judged_case(small(), bench),
        judged_case(
            small(faults=[{"at": "50s", "until": "51s", "link": "h0-t0", "loss": 0.5}]), bench
        ),
    )
    assert (plain.failure, plain.hops) == (late.failure, late.hops) == ("", plain.hops)


@pytest.mark.parametrize("wrap", [1, 3, 10])
@pytest.mark.parametrize("system", [name for name, each in registry.items() if each.aggregates])
def test_numbers_may_wrap(system, wrap, bench):
    data = small(faults=[{"at": "0s", "wrap": wrap}], loss={"all": 0.01})
    data["jobs"][0]["system"] = system
    assert judged_case(data, bench).failure == ""


def test_a_paused_host_goes_on(bench):
    plain = judged_case(small(), bench)
    paused = judged_case(small(faults=[{"at": "20us", "until": "5ms", "host": "h2"}]), bench)
    assert (paused.failure, paused.error) == ("", "")
    assert paused.seconds > plain.seconds


def test_a_dead_host_ends_the_run_with_a_named_error(bench):
    verdict = judged_case(small(faults=[{"at": "20us", "host": "h2"}]), bench)
    assert verdict.failure == ""
    said = "host h2 died at 20us: "
    assert verdict.error.startswith((f"Stalled: {said}", f"BrokenConnection: {said}"))


def test_a_switch_may_be_told_its_tables_late_and_in_any_order(bench):
    for seed in range(10):
        fault = {"at": "0s", "until": "300us", "switch": "t0", "tables": seed}
        verdict = judged_case(small(faults=[fault]), bench)
        assert (verdict.failure, verdict.error) == ("", "")


def test_a_failing_case_is_made_shorter(tmp_path):
    """The failure is made up: it needs one fault of many, and at least two workers."""
    data = case("atp", 3)
    culprit = {"at": "1us", "host": data["jobs"][0]["workers"][0]}
    noise = [{"at": f"{i + 2}us", "switch": "t0"} for i in range(7)]
    data["emulation"]["faults"] = [*noise[:4], culprit, *noise[4:]]

    def fails(each):
        workers = each["jobs"][0]["workers"]
        return culprit in each["emulation"]["faults"] and culprit["host"] in workers

    short = shrunk(data, fails)
    assert short["emulation"]["faults"] == [culprit]
    assert len(short["jobs"]) == 1
    assert len(short["jobs"][0]["workers"]) == 2
    path = keep(short, tmp_path / "kept")
    assert any(path.parent.glob("*.pcap"))
    result = invoke("torture", "--case", path)
    assert (result.exit_code, path.name) == (0, CASE)
    assert "ended with Stalled" in result.output


def test_a_crash_is_a_verdict_and_the_others_go_on(monkeypatch):
    def crashing(system, seed, bench):
        if seed == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return Verdict("", "", 1, 0.0)

    monkeypatch.setattr(judges, "judged_seed", crashing)
    verdicts = {seed: verdict for _, seed, verdict in judged(blocks(["atp"], 0, 40), 2)}
    assert sorted(verdicts) == list(range(40))
    assert [seed for seed, each in verdicts.items() if each.failure] == [2]
    assert verdicts[2].failure == "crashed: SIGKILL"


def _spin(data, bench):
    while True:
        pass


def test_a_case_that_never_returns_is_a_verdict(monkeypatch):
    monkeypatch.setattr(judges, "judged_case", _spin)
    monkeypatch.setattr(judges, "LONGEST_S", 0.2)
    assert Judge().case(small()).failure == "hangs: nothing in 0.2 s of processor time"


def test_a_case_that_waits_for_ever_is_a_verdict(monkeypatch):
    monkeypatch.setattr(judges, "judged_case", lambda data, bench: time.sleep(1000))
    monkeypatch.setattr(judges, "SILENCE_S", 0.2)
    assert Judge().case(small()).failure == "hangs: nothing in 0.2 s"


def test_a_case_that_waits_for_a_processor_does_not_hang(monkeypatch):
    """It may get none for minutes on a busy machine."""

    def waiting(data, bench):
        time.sleep(0.5)
        return Verdict("", "", 1, 0.0)

    monkeypatch.setattr(judges, "judged_case", waiting)
    monkeypatch.setattr(judges, "LONGEST_S", 0.2)
    assert not Judge().case(small()).failure


def test_counts_are_said():
    count = Count()
    for verdict in (Verdict("", "", 5, 1.0), Verdict("", "Stalled: x", 5, 1.0),
                    Verdict("wrong sum: y", "", 5, 1.0)):  # fmt: skip
        count.add(verdict)
    assert str(count) == (
        "3 schedules: 1 exact, 1 ended with a named error, 1 failed; 15 packets in 3 s"
        " of simulated time"
    )


def test_a_seed_does_not_depend_on_users_own_systems(monkeypatch):
    drawn = [cases.case("ring", seed)["jobs"] for seed in range(0, 64, 16)]
    cases.world.cache_clear()
    cases._neighbours.cache_clear()
    monkeypatch.setitem(registry, "aaa", replace(registry["ring"], name="aaa"))
    assert [cases.case("ring", seed)["jobs"] for seed in range(0, 64, 16)] == drawn


def test_a_system_that_cannot_be_deployed_fails_with_the_reason(monkeypatch, tmp_path):
    def refused(experiment, fabric):
        raise DeploymentError("its plan has no chunk")

    monkeypatch.setattr(cases, "deploy", refused)
    monkeypatch.setattr(cases, "world", cases.world.__wrapped__)
    verdict = judges.judged_seed("ring", 0, None)
    assert verdict.error.startswith(f"{NO_WORLD}: none of ")
    assert "its plan has no chunk" in verdict.error
    monkeypatch.setattr(hunt, "judged", lambda asked, jobs: iter([("ring", 0, verdict)]))
    result = invoke("torture", "--system", "ring", "--seeds", 1, "-o", tmp_path)
    assert result.exit_code == 1
    assert "1 not deployable" in result.output
    assert "ring: none of " in result.output and "its plan has no chunk" in result.output


def test_an_unknown_system_is_refused():
    result = invoke("torture", "--system", "nobody")
    assert result.exit_code == 2
    assert "found 'nobody', wanted one of" in result.output


def test_the_rate_in_processor_time_is_told(tmp_path):
    asked = ["--system", "ring", "--seeds", "4", "--jobs", "1", "-o", str(tmp_path)]
    result = invoke("torture", *asked)
    assert result.exit_code == 0, result.output
    (rate,) = re.findall(
        r"^4 schedules in \S+ s, (\d+) per second of processor time$", result.output, re.M
    )
    assert int(rate) > 0


def judging(*done):
    """What `judged` yields if only these are judged, and then Ctrl-C comes."""

    def some(asked, jobs):
        for system, seed in done:
            yield system, seed, Verdict("", "", 1, 0.0)
        os.kill(os.getpid(), signal.SIGINT)

    return some


def test_an_interrupted_hunt_says_what_was_judged_and_where_to_go_on(monkeypatch, tmp_path):
    done = judging(("atp", 5), ("ring", 5), ("atp", 6), ("ring", 7))
    monkeypatch.setattr("testbed.studies.torture.hunt.judged", done)
    asked = ["--system", "atp", "--system", "ring", "--first", "5", "-o", str(tmp_path)]
    result = invoke("torture", *asked, "--seconds", "60")
    assert result.exit_code == 130
    counts, rate, goes_on = result.stdout.splitlines()[:2], *result.stdout.splitlines()[2:]
    assert [line.partition(":")[0].split() for line in counts] == [
        ["atp", "2", "schedules"],
        ["ring", "2", "schedules"],
    ]
    assert rate.startswith("4 schedules in ")
    assert goes_on == "--first 6 goes on from here"
    assert result.stderr == "interrupted\n"


@pytest.mark.parametrize(("seeds", "goes_on"), [(None, 6), (3, 6), (1, None)])
def test_a_hunt_goes_on_at_the_first_seed_that_a_system_lacks(monkeypatch, seeds, goes_on):
    done = judging(("atp", 5), ("ring", 5), ("atp", 6))
    monkeypatch.setattr("testbed.studies.torture.hunt.judged", done)
    hunt = Hunt(["atp", "ring"], 5, seeds)
    with pytest.raises(KeyboardInterrupt):
        hunt.run(None, 1, lambda *_: None)
    assert hunt.next == goes_on


def test_byte_options_are_drawn_as_sizes():
    jobs = [case("byteps", 16 * world)["jobs"][0] for world in range(12)]
    drawn = [job["options"]["partition"] for job in jobs if "partition" in job["options"]]
    assert drawn and min(drawn) >= 1000


def test_what_a_stranger_sends_changes_no_sum(bench):
    """A worker's own contribution from another tree, and one with a bit that belongs to no one."""
    for header in ("0100ffff", "01000000"):
        packet = header + "00000000" * 3 + "8000000000000000" + "00000001" * 8
        faults = [
            {"at": f"{at}us", "host": "h1", "to": "t0", "packet": packet} for at in range(5, 60, 5)
        ]
        verdict = judged_case(small(faults=faults), bench)
        assert (verdict.failure, verdict.error) == ("", "")


def test_worlds_are_deployments_without_faults():
    data, deployment = world("ps", 0)
    assert Experiment.model_validate(data) == deployment.experiment
    assert judge(deployment, Bench()).failure == ""
